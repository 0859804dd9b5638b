"""The fingerprint of the code that a run's numbers depend on.

It hashes the syntax of modules, without comments and docstrings. Which modules is found from the
imports, wherever they stand, from START on:

- a name that is used in annotations only brings no numbers;
- a name that a package's `__init__` collects is followed to where it comes from, and the rest of
  what the package collects is left out;
- text "module:attribute" stands for what is imported when it is looked up. In a dict by name, those
  names are followed that the run has among its values (its engine, its data set), or all of them
  if the run has none of them;
- modules of the user's own, where a run names one in this way, and what is imported from beside
  them. Of installed packages the versions are recorded, not the code.
"""

import ast
import hashlib
import importlib.util
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from expograph import names
from expograph.config import Run

PACKAGE = "expograph"
SOURCE = Path(__file__).parents[2]  # the folder that holds the package
START = ("expograph.runs.train", "expograph.runs.assemble")
OWN = ("expograph.graphs.convert",)  # what makes a schedule of a function of the user's
ADDRESS = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*):[A-Za-z_]\w*")


class Import(NamedTuple):
    """`import module`, or `from module import name`, bound to a name of the file."""

    module: str
    name: str | None
    bound: str


class Syntax(NamedTuple):
    """What is to be known of a file.

    Attributes:
        text: its code, normalised.
        around: the same without imports and `__all__`: what a package does beside collecting.
        imports: those whose names are used beyond annotations.
        addresses: modules of the texts "module:attribute".
        tables: dicts name -> module of such texts.
    """

    text: str
    around: str
    imports: tuple[Import, ...]
    addresses: tuple[str, ...]
    tables: tuple[dict[str, str], ...]


def fingerprint(
    run: Run | None = None, extra_modules: Iterable[str] = (), source: Path = SOURCE
) -> str:
    """12 hex digits over the code that the run's numbers depend on; of any run if there is none.

    Args:
        run: decides which of the things that are looked up by name count.
        extra_modules: further modules of the user's own.
        source: the folder that holds the package.
    """
    return _fingerprint(_names_of(run, source), frozenset(extra_modules), source)


def modules(
    run: Run | None = None, extra_modules: Iterable[str] = (), source: Path = SOURCE
) -> dict[str, str]:
    """The modules that `fingerprint` covers, by name, each with the fingerprint of its own code."""
    covered = _covered(_names_of(run, source), frozenset(extra_modules), source)
    return {name: _digest(text) for (name, _), text in sorted(covered.items())}


def _names_of(run: Run | None, source: Path) -> frozenset[str] | None:
    """Those of the run's values that something is looked up by; None for no run in particular."""
    if run is None:
        return None
    known = _looked_up(source)
    return frozenset(w for w in _words(run.model_dump()) if w in known or ADDRESS.fullmatch(w))


@cache
def _looked_up(source: Path) -> frozenset[str]:
    """The names in all dicts of addresses."""
    finder = _Finder(source)
    covered = _covered(None, frozenset(), source)
    tables = [_syntax(finder.path(m), m).tables for m, whole in covered if whole]
    return frozenset(name for found in tables for table in found for name in table)


@cache
def _fingerprint(words: frozenset[str] | None, extra: frozenset[str], source: Path) -> str:
    covered = sorted(_covered(words, extra, source).items())
    return _digest("".join(f"{module}\n{text}\n" for (module, _), text in covered))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _covered(
    words: frozenset[str] | None, extra: frozenset[str], source: Path
) -> dict[tuple[str, bool], str]:
    """(module, whether it counts as a whole) -> its normalised code."""
    finder = _Finder(source)
    own = {m[1] for word in words or () if (m := ADDRESS.fullmatch(word))}
    texts: dict[tuple[str, bool], str] = {}
    for module in extra | own:
        finder.add(module)
    waiting = [(name, True) for name in (*START, *(OWN if own else ()), *sorted(extra | own))]
    while waiting:
        module, whole = waiting.pop()
        if (module, whole) in texts or (path := finder.path(module)) is None:
            continue
        syntax = _syntax(path, module)
        texts[module, whole] = syntax.text if whole else syntax.around
        waiting += [(p, False) for p in _packages(module) if finder.path(p)]
        if whole:
            waiting += [(found, True) for found in _followed(syntax, words, finder)]
    for module, whole in list(texts):  # a package that counts as a whole does not count twice
        if not whole and (module, True) in texts:
            del texts[module, whole]
    return texts


def _followed(syntax: Syntax, words: frozenset[str] | None, finder: "_Finder") -> Iterator[str]:
    for one in syntax.imports:
        yield from finder.target(one.module, one.name)
    yield from syntax.addresses
    for table in syntax.tables:
        chosen = table.keys() if words is None else table.keys() & words
        yield from (table[name] for name in sorted(chosen or table))


class _Finder:
    """Files of modules: those of the package, and of folders that hold modules of the user's."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.roots: dict[str, Path] = {PACKAGE: source}  # first word of a module -> its folder
        self.beside: set[Path] = set()  # folders all of whose modules are the user's

    def path(self, module: str) -> Path | None:
        """The file of a module; None if it is none of ours and none of the user's."""
        top = module.split(".")[0]
        if top not in self.roots:
            folder = self._folder(module)
            if folder is None:
                return None
            self.roots[top] = folder
        place = self.roots[top].joinpath(*module.split("."))
        found = (place.with_suffix(".py"), place / "__init__.py")
        return next((path for path in found if path.is_file()), None)

    def _folder(self, module: str) -> Path | None:
        top = module.split(".")[0]
        for folder in self.beside:
            if (folder / f"{top}.py").is_file() or (folder / top / "__init__.py").is_file():
                return folder
        return None

    def add(self, module: str) -> None:
        """Let a module of the user's own be found, and those in the same folder."""
        top = module.split(".")[0]
        spec = importlib.util.find_spec(top)
        if top in self.roots or spec is None or spec.origin is None:
            return
        place = Path(spec.origin)
        folder = place.parents[1] if place.name == "__init__.py" else place.parent
        self.roots[top] = folder
        if not {"site-packages", "dist-packages"} & set(folder.parts):
            self.beside.add(folder)

    def target(self, module: str, name: str | None) -> Iterator[str]:
        """The module that an import gets its name from."""
        path = self.path(module)
        if name is None or path is None:
            yield module
        elif self.path(f"{module}.{name}"):
            yield f"{module}.{name}"
        else:
            collected = _syntax(path, module).imports if path.name == "__init__.py" else ()
            origins = [one for one in collected if one.bound == name and one.name]
            if not origins:
                yield module  # defined there
            for one in origins:
                yield from self.target(one.module, one.name)


def _packages(module: str) -> Iterator[str]:
    parts = module.split(".")
    yield from (".".join(parts[:k]) for k in range(1, len(parts)))


@cache
def _syntax(path: Path, module: str) -> Syntax:
    tree = ast.parse(path.read_bytes())
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    nodes = list(ast.walk(tree))
    imports = tuple(_imports(nodes, package))
    addresses, tables = _addresses(nodes)
    stripped = _Stripped().visit(tree)
    text = ast.unparse(stripped)
    kept = [node for node in stripped.body if not _collects(node)]
    around = ast.unparse(ast.Module(kept, []))
    return Syntax(text, around, imports, addresses, tables)


class _Stripped(ast.NodeTransformer):
    """Without docstrings and other texts that stand alone."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        alone = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if alone else node


def _collects(node: ast.stmt) -> bool:
    names = [t.id for t in getattr(node, "targets", []) if isinstance(t, ast.Name)]
    return isinstance(node, ast.Import | ast.ImportFrom) or names == ["__all__"]


def _imports(nodes: list[ast.AST], package: str) -> Iterator[Import]:
    """The imports of a file but for those whose names are used in annotations only."""
    annotations = {id(inner) for node in nodes for a in _annotations(node) for inner in ast.walk(a)}
    used: set[str] = set()
    annotated: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            (annotated if id(node) in annotations else used).add(node.id)
        elif isinstance(node, ast.Constant) and id(node) in annotations:
            annotated |= set(re.findall(r"\w+", str(node.value)))  # "quoted"
    for node in nodes:
        if isinstance(node, ast.Import):
            found = [Import(a.name, None, a.asname or a.name.split(".")[0]) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else ()), *filter(None, [node.module])])
            found = [Import(base, a.name, a.asname or a.name) for a in node.names]
        else:
            continue
        yield from (one for one in found if one.bound in used or one.bound not in annotated)


def _annotations(node: ast.AST) -> list[ast.expr]:
    found = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    return [a for a in found if isinstance(a, ast.expr)]


def _addresses(nodes: list[ast.AST]) -> tuple[tuple[str, ...], tuple[dict[str, str], ...]]:
    """Modules of the texts "module:attribute", and the dicts from a name to one."""
    tables, in_tables = [], set()
    for node in nodes:
        if isinstance(node, ast.Dict):
            pairs = [
                (name, module, id(value))
                for key, value in zip(node.keys, node.values, strict=True)
                if (name := _text(key)) and (module := _address(value))
            ]
            tables.append({name: module for name, module, _ in pairs})
            in_tables |= {number for _, _, number in pairs}
    alone = {m for node in nodes if id(node) not in in_tables and (m := _address(node))}
    return tuple(sorted(alone)), tuple(table for table in tables if table)


def _text(node: ast.AST | None) -> str:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else ""


def _address(node: ast.AST) -> str | None:
    """The module of a text "module:attribute"."""
    found = ADDRESS.fullmatch(_text(node))
    return found and found[1]


def _words(value: Any) -> Iterator[str]:
    """Every text among the values of a config, and the name in front of parameters."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _words(inner)
    elif isinstance(value, str):
        yield value
        try:
            yield names.parse(value)[0]
        except ValueError:
            return
