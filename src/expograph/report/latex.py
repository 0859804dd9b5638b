"""Tables in LaTeX: snippets for `\\input`, each as wide as a paper's text at most.

A document needs booktabs, which tabulars are ruled with, and nothing else.
"""

import re
from collections.abc import Iterable

from expograph.analysis.table_result import TableResult, Tables
from expograph.report.layout import layout, one_line, split, visible

# What one line holds at \footnotesize in a text 5.5 inches wide: NeurIPS's; ICML's has 6.75.
CHARACTERS = 96
GAP = 2  # characters, as wide as the space between columns

FORMULAS = {  # the longer ones first
    "n^3 rho^4/(1-rho)^2": r"$n^3\rho^4/(1-\rho)^2$",
    "norm of W(tau-1)...W(0) - J": r"$\|W^{(\tau-1)}\cdots W^{(0)} - J\|$",
    "n^3 log^2 n": r"$n^3\log^2 n$",
    "1/log n": r"$1/\log n$",
    "log2 n": r"$\log_2 n$",
    "log n": r"$\log n$",
    "1/n^2": r"$1/n^2$",
    "n^7": "$n^7$",
    "n^5": "$n^5$",
    "n^3": "$n^3$",
    "1 - rho": r"$1-\rho$",
    "tau": r"$\tau$",
}
SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "±": r"$\pm$",
}
REPLACED = FORMULAS | SPECIAL
_WHOLE = re.compile("|".join(map(re.escape, FORMULAS)) + "| [=±] ")  # what no line break parts
_PARTS = re.compile("|".join(map(re.escape, REPLACED)) + r"|(?<![\w.])-(?=\d)")  # or a minus sign


def escaped(text: object) -> str:
    """Plain text of ours -> LaTeX: formulas and signs in math mode, special characters escaped."""
    made = _PARTS.sub(lambda found: REPLACED.get(found[0], "$-$"), str(text))
    # after a row's end TeX would take a bracket for the row's distance to the next
    return "{}" + made if made.startswith(("[", "*")) else made


def snippet(table: TableResult) -> str:
    """A table as booktabs tabulars: more than one, its labels repeated, where it is wide.

    Its heading goes into a comment: captions are the document's. Long cells, and column names, get
    several lines.
    """
    text = layout(table)
    tabulars = [_tabular(block) for block in split(text, CHARACTERS, GAP, _WHOLE)]
    body = "\n\\par\\medskip\\noindent\n".join(tabulars)
    return (
        f"% {text.heading}\n"
        f"{{\\footnotesize\\setlength{{\\tabcolsep}}{{4pt}}\\noindent\n{body}\\par}}\n"
    )


def document(tables: Tables) -> str:
    """All tables of a folder, one below the other."""
    snippets = map(snippet, visible(tables))
    return "\n\\bigskip\n".join([f"% {one_line(tables.title)}", *snippets])


def _tabular(columns: list[list[list[str]]]) -> str:
    head, *rows = zip(*columns, strict=True)
    return "\n".join(
        [
            "\\begin{tabular}{@{}" + "l" * len(columns) + "@{}}",
            "\\toprule",
            _row(head, "b"),
            "\\midrule",
            *(_row(row, "t") for row in rows),
            "\\bottomrule",
            "\\end{tabular}",
        ]
    )


def _row(cells: Iterable[list[str]], position: str) -> str:
    return " & ".join(_cell(lines, position) for lines in cells) + r" \\"


def _cell(lines: list[str], position: str) -> str:
    """One cell; one of several lines is a tabular with its top or bottom line ("t", "b") level."""
    text = r" \\ ".join(map(escaped, lines))
    if len(lines) == 1:
        return text
    return rf"\begin{{tabular}}[{position}]{{@{{}}l@{{}}}}{text}\end{{tabular}}"
