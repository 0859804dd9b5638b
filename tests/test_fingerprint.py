"""The fingerprint of the code a run depends on: its syntax, found from the imports."""

import ast
import shutil
import subprocess
import sys
import textwrap

import pytest

from expograph.config import Run
from expograph.runs import fingerprint as fingerprints
from expograph.runs.fingerprint import PACKAGE, SOURCE, fingerprint, modules

CONVEX = {
    "problem": {"kind": "logistic"},
    "topology": "ring",
    "nodes": 4,
    "algorithm": "dsgd_atc",
    "steps": 25,
    "lr": 0.1,
}
IMAGES = {"kind": "classification", "dataset": "digits", "model": "linear"}


def run_of(**changes) -> Run:
    return Run.model_validate(CONVEX | changes)


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A copy of the package that may be changed; nothing is remembered of it."""
    shutil.copytree(SOURCE / PACKAGE, tmp_path / PACKAGE, ignore=shutil.ignore_patterns("*.pyc"))
    return tmp_path


def of(source, run=None):
    for cached in (fingerprints._fingerprint, fingerprints._syntax, fingerprints._looked_up):
        cached.cache_clear()
    return fingerprint(run, source=source)


def edit(source, file, change):
    path = source / PACKAGE / file
    text = path.read_text()
    changed = change(text)
    assert changed != text
    path.write_text(changed)


def test_comments_docstrings_and_formatting_do_not_count(source):
    before = of(source)
    assert before == of(SOURCE)
    edit(
        source, "runs/train.py", lambda text: "# a comment\n\n" + text.replace('"""', '"""New. ', 1)
    )
    edit(source, "graphs/mixing.py", lambda text: ast.unparse(ast.parse(text)))
    assert of(source) == before


@pytest.mark.parametrize(
    "file",
    ["runs/train.py", "graphs/topology.py", "engines/embedded.py", "networks/small.py",
     "data/partition.py", "problems/convex.py", "randomness.py"],
)  # fmt: skip
def test_a_change_that_could_matter_counts(source, file):
    before = of(source)
    edit(source, file, lambda text: text + "\nLIMIT = 3\n")
    changed = of(source)
    assert changed != before
    edit(source, file, lambda text: text.replace("LIMIT = 3", "LIMIT = 4"))
    assert of(source) not in (before, changed)


def test_what_no_run_imports_does_not_count(source):
    before = of(source)
    for file in ("cli.py", "runs/pool.py", "runs/results.py", "report/rendering.py", "files.py"):
        edit(source, file, lambda text: text + "\nLIMIT = 3\n")
    assert of(source) == before


def test_numeric_modules_that_python_imports_are_covered():
    """Against the interpreter: what training loads. Others it may load for type hints only."""
    code = (
        "import sys; from expograph.config import Run;"
        "from expograph.runs.assemble import assemble;"
        f"list(assemble(Run.model_validate({CONVEX | {'problem': IMAGES}!r})).records());"
        "print(*sorted(m for m in sys.modules if m.startswith('expograph')))"
    )
    loaded = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    covered = set(modules(run_of(problem=IMAGES)))
    numeric = {"algorithms", "graphs", "networks", "randomness", "step_size"}
    assert {m for m in loaded if m.split(".")[1:2] and m.split(".")[1] in numeric} <= covered
    assert "expograph.data.digits" in covered  # found by its name in a dict


def test_what_is_looked_up_by_name_counts_for_runs_with_the_name(source):
    digits, fashion = (run_of(problem=IMAGES | {"dataset": d}) for d in ("digits", "fashion_mnist"))
    before = of(source, digits), of(source, fashion), of(source)
    assert len(set(before)) == 3
    edit(source, "data/digits.py", lambda text: text + "\nLIMIT = 3\n")
    after = of(source, digits), of(source, fashion), of(source)
    assert [a == b for a, b in zip(after, before, strict=True)] == [False, True, False]


def test_the_engine_in_a_dict_counts_for_its_own_runs(tmp_path):
    """A small package: addresses in a dict by name, lazily imported modules, type hints."""
    files = {
        "__init__.py": "",
        "runs/__init__.py": "",
        "runs/train.py": """
            from typing import TYPE_CHECKING
            from expograph.config import Run
            from expograph.collected import used
            if TYPE_CHECKING:
                from expograph.hints import Hint
            ENGINES = {"embedded": "expograph.engines.one:One", "mpi": "expograph.engines.two:Two"}
            def train(run: Run, hint: "Hint") -> Run:
                from expograph import lazy
                return used(lazy)
        """,
        "collected/__init__.py": "from expograph.collected.a import used\n"
        "from expograph.collected.b import unused\n__all__ = ['unused', 'used']\n",
        "collected/a.py": "def used(x): return x\n",
        "collected/b.py": "def unused(x): return x\n",
        **{f"{name}.py": "X = 1\n" for name in ("config", "hints", "lazy")},
        "engines/__init__.py": "",
        "engines/one.py": "class One: pass\n",
        "engines/two.py": "from . import common\nclass Two: pass\n",
        "engines/common.py": "X = 1\n",
    }
    for name, text in files.items():
        path = tmp_path / "expograph" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    always = {"", ".runs", ".runs.train", ".collected", ".collected.a", ".lazy", ".engines"}
    expected = {
        "embedded": always | {".engines.one"},
        "mpi": always | {".engines.two", ".engines.common"},
    }
    for engine, names in expected.items():
        found = modules(run_of(engine=engine), source=tmp_path)
        assert set(found) == {f"expograph{name}" for name in names}
    assert len(modules(source=tmp_path)) == len(always) + 3
    before = fingerprint(source=tmp_path)
    edit(tmp_path, "collected/__init__.py", lambda text: text.replace("'unused', ", ""))
    assert of(tmp_path) == before


def test_modules_of_the_users_own_count_with_what_they_import(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_only.py").write_text("import beside_it\nimport numpy\nX = 1\n")
    (tmp_path / "beside_it.py").write_text("Y = 1\n")
    found = modules(run_of(), ["mine_only"])
    assert {"mine_only", "beside_it"} <= set(found) and "numpy" not in found
    before = of(SOURCE)
    fingerprints._syntax.cache_clear()
    first = fingerprint(run_of(), ["mine_only"])
    (tmp_path / "beside_it.py").write_text("Y = 2\n")
    of(SOURCE)
    assert fingerprint(run_of(), ["mine_only"]) != first
    assert of(SOURCE) == before
