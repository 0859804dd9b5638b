"""Tables in LaTeX: snippets for `\\input`, each as wide as a paper's text at most.

A document needs booktabs, which tabulars are ruled with, and nothing else.
"""

import re
import textwrap
from collections.abc import Iterable

import pandas as pd

# What one line holds at \footnotesize in a text 5.5 inches wide: NeurIPS's; ICML's has 6.75.
CHARACTERS = 96
GAP = 2  # characters, as wide as the space between columns
LONGEST = 32  # characters of a cell's line
NO_BREAK = "\u00a0"

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


def snippet(heading: str, frame: pd.DataFrame) -> str:
    """A table as booktabs tabulars: more than one, its first columns repeated, where it is wide.

    Args:
        heading: goes into a comment: captions are the document's.
        frame: the cells as plain text; long ones, and column names, get several lines.
    """
    shown = [_lines(frame.iloc[:, j], name) for j, name in enumerate(frame.columns)]
    widths = [max(len(line) for cell in cells for line in cell) + GAP for cells in shown]
    labels = _labels(frame)
    blocks = _blocks(widths[labels:], CHARACTERS - sum(widths[:labels]))
    tabulars = [_tabular([*shown[:labels], *(shown[labels + j] for j in b)]) for b in blocks]
    body = "\n\\par\\medskip\\noindent\n".join(tabulars)
    comment = " ".join(heading.split())
    return (
        f"% {comment}\n{{\\footnotesize\\setlength{{\\tabcolsep}}{{4pt}}\\noindent\n{body}\\par}}\n"
    )


def _labels(frame: pd.DataFrame) -> int:
    """How many of the first columns tell the rows apart; 1 if none do."""
    for count in range(1, frame.shape[1]):
        if not frame.iloc[:, :count].duplicated().any():
            return count
    return 1


def _blocks(widths: list[int], room: int) -> list[list[int]]:
    """The columns in as few blocks as fit the room, and these about equally wide."""

    def filled(room: int) -> list[list[int]]:
        blocks, used = [[]], 0
        for j, width in enumerate(widths):
            if blocks[-1] and used + width > room:
                blocks, used = [*blocks, []], 0
            blocks[-1].append(j)
            used += width
        return blocks

    fewest = len(filled(room))
    narrower = (filled(r) for r in range(room))
    return next((blocks for blocks in narrower if len(blocks) == fewest), filled(room))


def _lines(column: pd.Series, name: str) -> list[list[str]]:
    """The lines of a column's name and of its cells; the name is no wider than it must be."""
    cells = [_wrapped(cell, LONGEST) for cell in column]
    widest = max((len(line) for cell in cells for line in cell), default=0)
    return [_wrapped(name, max(widest, 14)), *cells]


def _wrapped(text: object, width: int) -> list[str]:
    whole = _WHOLE.sub(lambda found: found[0].replace(" ", NO_BREAK), str(text))
    lines = textwrap.wrap(whole, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace(NO_BREAK, " ") for line in lines] or [""]


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
