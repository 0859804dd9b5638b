"""LaTeX: nothing unescaped, nothing too wide, and a document that compiles."""

import os
import re
import shutil
import string
import subprocess
from pathlib import Path

import pytest

from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables
from expograph.report import latex, rendering

NASTY = r"\ { } $ & # % _ ^ ~ < > | ± \alpha $x$ 5 % a_b"
# Debian: texlive-latex-base (pdflatex, article) and texlive-latex-recommended (booktabs)
needs_latex = pytest.mark.skipif(
    not shutil.which("pdflatex") and not os.environ.get("EXPOGRAPH_LATEX"),
    reason="pdflatex is not installed (EXPOGRAPH_LATEX=1 makes this a failure)",
)
# the narrowest text that the snippets are made for; letters and margins of a plain article
DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs}
\setlength{\textwidth}{5.5in}
\setlength{\textheight}{9in}
\setlength{\parindent}{0pt}
\begin{document}
%s
\end{document}
"""


def table(heading: str, columns: dict[str, list[str]]) -> TableResult:
    """A table of text whose first column is the rows' label."""
    (key, labels), *others = columns.items()
    cells = zip(*(texts for _, texts in others), strict=True) if others else ([] for _ in labels)
    rows = zip(labels, cells, strict=True)
    return TableResult(
        id="t",
        heading=heading,
        labels=(key,),
        columns=tuple(Column(name=name) for name, _ in others),
        rows=tuple(Row(labels=(a,), cells=tuple(Cell(text=b) for b in row)) for a, row in rows),
    )


@pytest.mark.parametrize(("plain", "made"), [*latex.SPECIAL.items(), *latex.FORMULAS.items()])
def test_every_special_character_and_formula_is_replaced(plain, made):
    assert latex.escaped(plain) == made
    assert latex.escaped(f"a {plain}{plain} b") == f"a {made}{made} b"


def test_what_tex_takes_as_a_command_is_covered():
    commands = set("\\{}$&#%_^~") | set("<>|")  # the last three print as other characters
    assert commands <= set(latex.SPECIAL)
    harmless = set(string.printable) - set(latex.SPECIAL)
    assert all(latex.escaped(f"a{c}") == f"a{c}" for c in harmless)


@pytest.mark.parametrize(
    ("plain", "made"),
    [
        ("-0.03 ± 0.01", r"$-$0.03 $\pm$ 0.01"),
        ("(p = 4e-06)", "(p = 4e-06)"),
        ("one-peer", "one-peer"),
        ("[0, 1]", "{}[0, 1]"),  # else the distance between two rows
        ("*", "{}*"),
        (0.5, "0.5"),
    ],
)
def test_signs_and_brackets(plain, made):
    assert latex.escaped(plain) == made


def test_a_wide_table_becomes_several_with_its_labels_repeated():
    wide = {f"column {j}": ["80.69 ± 1.93", "1"] for j in range(20)}
    wide = {"topology": ["one-peer exponential", "ring"]} | wide
    made = latex.snippet(table("a\nheading", wide))
    assert made.startswith("% a heading\n")
    blocks = made.count(r"\begin{tabular}{")
    assert 2 <= blocks <= 5 and made.count("ring & 1 &") == blocks
    rows = [line for line in made.splitlines() if line.endswith(r"\\")]
    assert all(len(row.replace(r"$\pm$", "±")) < 1.2 * latex.CHARACTERS for row in rows)


def test_formulas_are_not_broken_into_lines():
    name = "n^3 rho^4/(1-rho)^2, n = 8"
    made = latex.snippet(table("", {"topology": ["ring"], name: ["5"]}))
    assert latex.FORMULAS["n^3 rho^4/(1-rho)^2"] in made and "n = 8" in made


def test_every_table_has_a_snippet_of_its_own(tmp_path):
    first, second = (table(heading, {"a": ["1"]}) for heading in ("first", "second"))
    rendering.write(Tables(title="title", tables=(first, second)), tmp_path)
    whole = (tmp_path / "table.tex").read_text()
    parts = [(tmp_path / f"table_{k}.tex").read_text() for k in (1, 2)]
    assert all(part in whole and part.count(r"\toprule") == 1 for part in parts)
    rendering.write(Tables(title="title", tables=(first,)), tmp_path)
    assert not list(tmp_path.glob("table_*.tex"))


def compiled(body: str, folder: Path) -> str:
    """The log of pdflatex, which must succeed."""
    (folder / "document.tex").write_text(DOCUMENT % body)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@needs_latex
def test_every_committed_table_compiles_and_fits_the_text(tmp_path):
    snippets = sorted(Path("results").glob("*/table*.tex"))
    assert snippets
    log = compiled("\n".join(rf"\input{{{p.resolve()}}}\clearpage" for p in snippets), tmp_path)
    assert not re.findall(r"Overfull \\hbox.*", log)


@needs_latex
def test_any_text_compiles_and_comes_out_as_it_went_in(tmp_path):
    cells = [NASTY, "[bracket", "*star", "", string.punctuation]
    nasty = table("100 % of $ & \\ #", {"[name": cells, NASTY: cells})
    (tmp_path / "nasty.tex").write_text(latex.snippet(nasty))
    log = compiled(r"\input{nasty}", tmp_path)
    assert "Missing character" not in log
    if shutil.which("pdftotext"):
        text = tmp_path / "document.txt"
        subprocess.run(["pdftotext", tmp_path / "document.pdf", text], check=True)
        assert {"[bracket", "\\alpha", "$x$"} <= set(text.read_text().split())
