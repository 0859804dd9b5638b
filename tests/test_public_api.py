"""Whoever builds on the package learns from CHANGELOG.md what became of a name or a signature."""

import difflib
from pathlib import Path

import public_api
import pytest

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def test_the_public_api_is_the_one_that_the_changelog_has():
    now, before = public_api.lines(), public_api.FILE.read_text().splitlines()
    changes = [
        line
        for line in difflib.unified_diff(before, now, lineterm="", n=0)
        if line[0] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert not changes, "the public API changed: `python tests/public_api.py`\n" + "\n".join(
        changes
    )
    mark = f"(API {public_api.digest(public_api.FILE.read_text())})"
    assert mark in CHANGELOG.read_text(), (
        f"the public API changed: say in CHANGELOG.md what became of it, in a line with {mark}"
    )


@pytest.mark.parametrize(
    "source, promised",
    [
        ("def f(a: int, *, b: str = 'x') -> None: ...", ["m.f(a: int, *, b: str='x') -> None"]),
        ("def _f(): ...", []),
        ("x: int = 3", ["m.x: int = 3"]),
        (
            "class A(B):\n  y: int\n  _z: int\n  @property\n  def p(self) -> int: ...",
            ["class m.A(B)", "m.A.y: int", "@property m.A.p(self) -> int"],
        ),
    ],
)
def test_signatures_are_read_from_the_source(source, promised):
    assert list(public_api.promises(source, "m")) == promised
