"""The documentation: its examples run, its pictures are the package's, its site is whole.

The site is built where Sphinx is installed (`make docs`); with EXPOGRAPH_DOCS=1 it must be.
"""

import doctest
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import expograph
from expograph import cli
from expograph.config import Run, load
from expograph.graphs.topology import TOPOLOGIES

ROOT = Path(__file__).parent.parent
PAGES = {str(p.relative_to(ROOT)): p.read_text() for p in sorted((ROOT / "docs").rglob("*.md"))}
SPHINX = all(importlib.util.find_spec(name) for name in ("sphinx", "myst_parser", "furo"))
needs_sphinx = pytest.mark.skipif(
    not SPHINX and os.environ.get("EXPOGRAPH_DOCS") != "1", reason="make docs installs Sphinx"
)
sys.path.append(str(ROOT / "docs"))


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)


RANKS = "docs/averager.md"  # its example needs ranks: test_averager
WITH_PYTHON = [page for page in PAGES if page != RANKS and blocks(page, "python")]


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_examples_run_and_say_what_stands_there(page, monkeypatch):
    """The blocks of a page one after the other, as a reader would type them, in one session."""
    monkeypatch.chdir(ROOT)
    names: dict = {"__name__": "example"}
    for number, text in enumerate(blocks(page, "python")):
        if not text.startswith(">>>"):
            exec(compile(text, f"{page}, block {number}", "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
        said: list[str] = []
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(test, out=said.append, clear_globs=False)
        names = test.globs
        assert not runner.failures, "".join(said)


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_are_shown_are_understood(page):
    """Every `expograph ...` line of an indented block, up to its comment, by the real parsers."""
    for line in re.findall(r"^    expograph (.*)$", PAGES[page], re.MULTILINE):
        words = shlex.split(re.sub(r" {2,}.*", "", line), comments=True)
        if words[0] in cli.COMMANDS and words[0] != "completion":
            import argparse

            parser = cli.describe(argparse.ArgumentParser(), cli.module_of(words[0]))
            if "--help" not in words:
                parser.parse_intermixed_args(words[1:])
        else:
            assert words[0] in ("COMMAND", "completion"), line


def test_the_example_of_a_config_is_one(tmp_path):
    (text,) = blocks("docs/reference/config.md", "toml")
    path = tmp_path / "two_graphs.toml"
    path.write_text(text)
    assert len(load(path).runs) == 2 * 3 * 2


def test_every_page_and_every_public_name_has_its_place():
    from builder import navigation

    listed = [page for pages in navigation.PAGES.values() for page in pages]
    pages = {page.removesuffix(".md") for page in PAGES} - {navigation.ROOT}
    assert pages == {page for page in listed if page.startswith("docs/")}
    asked = re.findall(r"\{generated\} (?:public|package) (.*)", PAGES["docs/reference/python.md"])
    named = {name for line in asked for name in line.split()} | {"__version__"}
    assert named == set(expograph.__all__)


def test_every_config_key_topology_and_algorithm_is_described():
    from builder import config_keys, generated

    run = config_keys.keys("run")
    assert all(f"| `{key}` |" in run for key in Run.model_fields)
    for model in ("file", "table", "classification", "detection", "least_squares", "logistic"):
        assert config_keys.keys(model).count("\n") > 5
    table = generated.topologies()
    assert all(f"[`{name}`](#" in table for name in TOPOLOGIES)
    assert "| `m_i" not in generated.algorithms()


def test_docstrings_keep_their_meaning_as_markup():
    from builder.docstrings import as_rst

    text = "The norm |x_i - x*|^2 of `a_`.\n\n    x <- W x\n\nArgs:\n    n: number, at least |1|.\n"
    assert as_rst(text).split("\n") == [
        r"The norm \|x_i - x\*\|^2 of ``a_``.",
        "",
        "::",
        "",
        "    x <- W x",
        "",
        "Args:",
        r"    n: number, at least \|1\|.",
    ]


def test_a_fault_of_a_page_is_found(tmp_path):
    links = pytest.importorskip("builder.links") if SPHINX else pytest.skip("needs Sphinx")
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">b</a><a href="#here">a</a><a href="c.html">c</a>'
        '<script src="https://cdn.example/x.js"></script><img src="no.png">'
    )
    (tmp_path / "b.html").write_text('<a href="a.html#here">a</a>')
    (tmp_path / "x.css").write_text(
        "@import 'https://fonts.example/f.css'; a{background:url(data:,)}"
    )
    assert [line.partition(": ")[2] for line in links.faults(tmp_path)] == [
        "loads https://cdn.example/x.js from another site",
        "loads no.png, which is not there",
        "links to b.html#there, which has no such anchor",
        "links to c.html, which is not there",
        "loads https://fonts.example/f.css, which is not there",
    ]


def test_pictures_are_those_of_the_package(tmp_path):
    import draw

    for path in draw.draw(tmp_path):
        assert path.read_bytes() == (ROOT / "docs/pictures" / path.name).read_bytes(), path.name
    assert {p.stem for p in (ROOT / "docs/pictures").iterdir()} == set(draw.PICTURES)


def test_the_report_links_to_the_documentation(tmp_path):
    from expograph.report import page

    target = tmp_path / "results" / "report"
    assert page._documentation(tmp_path, target) is None
    (tmp_path / "docs").mkdir()
    assert page._documentation(tmp_path, target) == "../../docs"
    (tmp_path / "build/docs").mkdir(parents=True)
    (tmp_path / "build/docs/index.html").write_text("")
    assert page._documentation(tmp_path, target) == "../../build/docs/index.html"


@needs_sphinx
def test_the_site_builds_without_a_warning_or_a_broken_link(tmp_path):
    """As `make docs` does: warnings and what `builder/links.py` finds are errors."""
    words = ["-c", "docs", "-b", "html", "-E", "-W", "--keep-going", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, "-d", tmp_path / "trees", ".", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/docs/index.html").exists()
