"""Parts of pages that are made from the package while the site is built.

A page asks for one by a fenced block, `{generated}` with the name of a part and its words:

    ```{generated} config-keys run
    ```

What a part returns is Markdown that takes the block's place before the page is read.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any

from builder import config_keys
from builder.docstrings import as_rst

BLOCK = re.compile(r"^```\{generated\} +(?P<words>[^\n]+)\n(?P<body>.*?)^```$", re.M | re.S)
TOPOLOGY_AT = 16  # nodes for which the table of topologies has numbers


def fill(app: object, page: str, source: list[str]) -> None:
    """Put what the page asks for in the place of its blocks."""
    source[0] = BLOCK.sub(_part, source[0])


def _part(block: re.Match[str]) -> str:
    name, *words = block["words"].split()
    return PARTS[name](*words, *block["body"].split())


def public(*names: str) -> str:
    """Names of `expograph`, each with its signature and docstring."""
    import expograph

    blocks = []
    for name in names:
        what = getattr(expograph, name)
        kind = "class" if inspect.isclass(what) else "function"
        if kind == "class" and issubclass(what, Exception):
            kind = "exception"
        blocks.append(_autodoc(kind, f"expograph.{name}", members=kind == "class"))
    return _rst(*blocks)


def package(name: str) -> str:
    """A package of `expograph`: what its docstring says, its modules, and the names it collects."""
    import expograph

    module = getattr(expograph, name)
    collected = [n for n in getattr(module, "__all__", []) if _documented(getattr(module, n))]
    parts = [_rst(as_rst(inspect.cleandoc(module.__doc__ or "")))]
    constants = [n for n in getattr(module, "__all__", []) if isinstance(getattr(module, n), dict)]
    if constants:
        listed = "; ".join(f"`{n}`: {_keys(getattr(module, n))}" for n in constants)
        parts.append(f"By name: {listed}.")
    elsewhere = {id(getattr(expograph, n)) for n in expograph.__all__ if n != "__version__"}
    own = [n for n in collected if id(getattr(module, n)) not in elsewhere]
    if own:
        kinds = {n: "class" if inspect.isclass(getattr(module, n)) else "function" for n in own}
        parts.append(
            _rst(*(_autodoc(kind, f"expograph.{name}.{n}", False) for n, kind in kinds.items()))
        )
    return "\n\n".join(parts)


def modules(name: str) -> str:
    """The modules of a package with the first line of each docstring, as a table."""
    import importlib
    import pkgutil

    found = importlib.import_module(f"expograph.{name}")
    rows = []
    for one in pkgutil.iter_modules(found.__path__):
        doc = inspect.cleandoc(importlib.import_module(f"expograph.{name}.{one.name}").__doc__)
        first = " ".join(doc.split("\n\n")[0].split())
        rows.append((f"`expograph.{name}.{one.name}`", config_keys.cell(first)))
    return config_keys.table(("module", "what it holds"), rows)


def topologies() -> str:
    """Every topology: a table of what a step costs and implies, then each docstring."""
    from expograph.analysis.written import name_of
    from expograph.graphs.overview import overview
    from expograph.graphs.theory import rate_of
    from expograph.graphs.topology import TOPOLOGIES, build
    from expograph.graphs.topology import names as spellings

    n = TOPOLOGY_AT
    orders, numbers = [], []
    for name in spellings():
        schedule, base = build(name, n), name.partition("(")[0]
        linked = f"[`{name}`](#{_anchor(base)})"
        if name == base:
            orders.append([linked, *rate_of(name)])
        known = overview(schedule)
        shares = [None if value is None else value / n for value in (known.S, known.H)]
        cells = [linked, str(known.period or "drawn"), f"{known.messages:.3g}"]
        cells += ["" if value is None else f"{value:.3g}" for value in (known.gap, *shares)]
        cells += ["" if known.period is None else "yes" if known.exact else "no"]
        numbers.append(cells)
    costs = ("messages a step", "1 - rho")
    heads = (f"n = {n}", "period", *costs, "S / n", "H / n", "exact after a period")
    parts = [
        config_keys.table(("topology", *costs, "transient iterations"), orders),
        config_keys.table(heads, numbers, "lrrrrrl"),
    ]
    for name, function in TOPOLOGIES.items():
        chosen = [s for s in spellings() if s.startswith(f"{name}(")]
        shown = ", ".join(f"`{one}`" for one in [name, *chosen])
        parts += [
            f"### {name_of(name)}",
            f"In configs: {shown}. Drawn in the terminal by "
            f"`expograph topology show {name} --nodes {n}`.",
            _rst(_without_napoleon(function)),
        ]
    return "\n\n".join(parts)


def algorithms() -> str:
    """Every algorithm: a table of what it declares, then each docstring with its equations."""
    from expograph.algorithms import ALGORITHMS, build, parameters
    from expograph.analysis.written import name_of
    from expograph.config.facts import ALGORITHMS as FACTS
    from expograph.rule_parameters import PARAMETERS

    heads = (
        "algorithm",
        "in tables",
        "momentum",
        "vectors a message",
        "needs of W(k)",
        "over exact averaging it is",
    )
    rows, details = [], []
    for name, factory in ALGORITHMS.items():
        rule, reference = build(name), FACTS[name].over_exact
        over = "itself: no other graph" if rule.exact else f"`{reference}`"
        cells = [f"[`{name}`](#{_anchor(name)})", name_of(name)]
        needs = ", ".join((f"{rule.stochastic} stochastic", *rule.needs))
        cells += ["yes" if rule.momentum else "no", f"{rule.vectors:g}", needs, over]
        rows.append(cells)
        details += [f"### `{name}`", _rst(_without_napoleon(factory))]
        given = [
            (f"`{key}`", repr(value), PARAMETERS[key].allowed, PARAMETERS[key].words)
            for key, value in parameters(name).items()
        ]
        if given:
            details.append(config_keys.table(("parameter", "default", "allowed", ""), given))
    return "\n\n".join([config_keys.table(heads, rows, "lllrll"), *details])


def commands() -> str:
    """Every sub-command with its help."""
    import argparse
    import os

    from expograph import cli

    os.environ["COLUMNS"] = "96"  # argparse fills lines to the terminal's width
    parts = []
    for name, summary in cli.COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"expograph {name}")
        text = cli.describe(parser, cli.module_of(name)).format_help().rstrip()
        parts += [f"## {name}", f"{summary[0].upper()}{summary[1:]}.", f"```text\n{text}\n```"]
    return "\n\n".join(parts)


def _autodoc(kind: str, name: str, members: bool) -> str:
    options = ["   :members:", "   :undoc-members:"] if members else []
    return "\n".join([f".. auto{kind}:: {name}", *options])


def _rst(*blocks: str) -> str:
    text = "\n\n".join(blocks)
    return f"````{{eval-rst}}\n{text}\n````"


def _documented(what: Any) -> bool:
    return inspect.isclass(what) or inspect.isfunction(what)


def _keys(table: dict) -> str:
    return ", ".join(f"`{key}`" for key in table)


def _without_napoleon(function: Callable) -> str:
    """A docstring whose sections become paragraphs: outside autodoc nobody reads them."""
    from sphinx.ext.napoleon import GoogleDocstring

    return str(GoogleDocstring(as_rst(inspect.cleandoc(function.__doc__ or ""))))


def _anchor(heading: str) -> str:
    """How a heading is linked to, as code hosts do."""
    from expograph.algorithms import ALGORITHMS
    from expograph.analysis.written import name_of

    text = heading if heading in ALGORITHMS else name_of(heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


PARTS: dict[str, Callable[..., str]] = {
    "public": public,
    "package": package,
    "modules": modules,
    "topologies": topologies,
    "algorithms": algorithms,
    "commands": commands,
    "config-keys": config_keys.keys,
    "names": config_keys.names,
}
