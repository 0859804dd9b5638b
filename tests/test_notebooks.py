"""The notebooks: text first, executed, and committed with what they give here."""

import ast
import importlib.util
import json
import os
import time
from pathlib import Path

import pytest

NOTEBOOKS = sorted(Path("notebooks").glob("*.ipynb"))
ROOT = str(Path.cwd())


def cells(path, kind):
    return [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == kind]


def test_there_are_three():
    names = {path.stem for path in NOTEBOOKS}
    assert names == {"curves", "exponential_graphs", "own_topology"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_with_outputs_and_little_else(path):
    text, code = cells(path, "markdown"), cells(path, "code")
    assert len(text) >= 5
    assert sum(len("".join(c["source"])) for c in text) > 1000
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
    shown = [output["output_type"] for c in code for output in c["outputs"]]
    assert set(shown) <= {"execute_result", "display_data"}  # no warnings, no prints
    assert sum("image/png" in output["data"] for c in code for output in c["outputs"]) >= 2
    assert path.stat().st_size < 300_000
    content = path.read_text()
    assert all(absolute not in content for absolute in (ROOT, str(Path.home()), "/tmp/"))
    assert all(not c["metadata"] for c in (*text, *code))  # times, collapsed cells
    assert set(json.loads(content)["metadata"]) == {"kernelspec", "language_info"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_logic_of_its_own(path):
    source = "\n".join("".join(c["source"]) for c in cells(path, "code"))
    tree = ast.parse(source.replace("%matplotlib inline", ""))
    kinds = (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.If)
    assert not any(isinstance(node, kinds) for node in ast.walk(tree))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_executes_in_a_clean_kernel(path, monkeypatch):
    spec = importlib.util.spec_from_file_location("execute", "notebooks/execute.py")
    execute = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(execute)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # beside the other tests
    started, before = time.monotonic(), os.times()
    notebook = execute.executed(path)
    assert time.monotonic() - started < 120 and os.times().children_user - before.children_user < 30
    committed = [len(c["outputs"]) for c in cells(path, "code")]
    assert [len(c.outputs) for c in notebook.cells if c.cell_type == "code"] == committed


def test_the_table_shown_is_the_committed_one():
    outputs = [o for c in cells(Path("notebooks/curves.ipynb"), "code") for o in c["outputs"]]
    (shown,) = [o["data"]["text/markdown"] for o in outputs if "text/markdown" in o["data"]]
    assert "".join(shown) == Path("results/table2/table.md").read_text()
