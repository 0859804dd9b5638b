"""Our docstrings as reStructuredText.

They are plain text: `code` in single backticks, equations as indented blocks or as lines with
arrows, sections (Args, Returns, Raises, Attributes) as napoleon reads them. In reStructuredText
|x|, a * b and x_ would be markup, and an indented block a quotation.
"""

import re
from collections.abc import Iterator

SECTION = re.compile(r"(Args|Arguments|Attributes|Returns|Raises|Yields|Ref):\s*(.*)")
CODE = re.compile(r"(`[^`]+`)")
MARKUP = re.compile(r"([*|]|(?<=\w)_(?!\w)|\\)")
COLUMNS = re.compile(r"\S {3,}\S")


def prepare(app: object, what: str, name: str, obj: object, options: object, lines: list[str]):
    """Rewrite the lines of a docstring in place, before napoleon reads its sections."""
    lines[:] = as_rst("\n".join(lines)).split("\n")


def as_rst(text: str) -> str:
    """A docstring, its indentation removed, as reStructuredText with napoleon's sections."""
    paragraphs = re.split(r"\n[ \t]*\n", text.strip("\n"))
    return "\n\n".join(_converted(paragraphs))


def _converted(paragraphs: list[str]) -> Iterator[str]:
    within = False  # a section, whose paragraphs are indented
    literal = False
    for paragraph in paragraphs:
        lines = paragraph.split("\n")
        indented = all(line.startswith("    ") for line in lines)
        if SECTION.fullmatch(lines[0]):
            within = True
        elif not lines[0].startswith(" "):
            within = False
        if lines[0].lstrip().startswith(">>>"):
            literal = False
            yield paragraph
        elif indented and not within and not lines[0].lstrip().startswith("- "):
            yield paragraph if literal else f"::\n\n{paragraph}"
            literal = True
        elif not within and _is_equation(lines):
            literal = True
            yield "::\n\n" + "\n".join(f"    {line}" for line in lines)
        else:
            literal = False
            yield _ref("\n".join(map(escaped, lines)))


def _is_equation(lines: list[str]) -> bool:
    """Whether a paragraph is lines of updates, or columns: joined into one they say nothing."""
    return all(" <- " in line for line in lines) or all(COLUMNS.search(line) for line in lines)


def _ref(paragraph: str) -> str:
    """`Ref: a book` in one line would be no section for napoleon: it stays a paragraph."""
    return re.sub(r"^Ref: ", "Reference: ", paragraph)


def escaped(line: str) -> str:
    """A line of prose: `code` as literals, what would be markup between them as it is."""
    parts = CODE.split(line)
    return "".join(
        f"`{part}`" if CODE.fullmatch(part) else MARKUP.sub(r"\\\1", part) for part in parts
    )
