"""Every public name of the package with its signature, as the source has it: a line each.

    python tests/public_api.py      writes tests/public_api.txt, which test_public_api.py compares

Public are the names of `expograph.__all__` and, of the modules among them, those in their
`__all__`; of a class its fields, and its methods and properties without an underscore.
"""

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import expograph

FILE = Path(__file__).with_suffix(".txt")


def lines() -> list[str]:
    """The public names in alphabetical order, each followed by what belongs to it."""
    return [line for name in sorted(expograph.__all__) for line in _of(name, expograph)]


def digest(text: str) -> str:
    """8 hex digits by which a line of CHANGELOG.md names the API that it brings."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def promises(source: str, owner: str) -> Iterator[str]:
    """What the definitions of a piece of source promise to callers, by `owner`'s name."""
    for node in ast.parse(textwrap.dedent(source)).body:
        yield from _promises(node, owner)


def _of(name: str, owner: ModuleType) -> Iterator[str]:
    value = getattr(owner, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        yield from promises(inspect.getsource(value), owner.__name__)
        return
    yield f"{owner.__name__}.{name}"  # of a constant or a module that it is there
    if inspect.ismodule(value):
        for inner in sorted(getattr(value, "__all__", [])):
            yield from _of(inner, value)


def _promises(node: ast.stmt, owner: str) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        path = f"{owner}.{node.name}"
        yield f"class {path}" + (
            f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""
        )
        for inner in node.body:
            yield from _promises(inner, path)
    elif isinstance(node, ast.FunctionDef) and _is_public(node.name):
        how = "".join(f"@{ast.unparse(decorator)} " for decorator in node.decorator_list)
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        yield f"{how}{owner}.{node.name}({ast.unparse(node.args)}){returns}"
    elif isinstance(node, ast.AnnAssign) and _is_public(field := ast.unparse(node.target)):
        default = f" = {ast.unparse(node.value)}" if node.value else ""
        yield f"{owner}.{field}: {ast.unparse(node.annotation)}{default}"


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name in ("__init__", "__call__")


if __name__ == "__main__":
    text = "\n".join(lines()) + "\n"
    FILE.write_text(text)
    print(f"{FILE.name}: its line in CHANGELOG.md ends with (API {digest(text)})")
