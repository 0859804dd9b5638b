"""The report: a static site made of results/, which opens from disk without a network.

    index.html  claims.html  figures.html  costs.html  topologies.html  topology-<name>.html
    <experiment>.html        its tables and curves at every scale
    <experiment>-runs.html   where each of its runs comes from

Pages are Jinja templates (`templates/`), charts Vega-Lite specifications (`charts.py`), drawn by
one script that lies beside the pages.
"""

import os
import re
import shutil
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from expograph.analysis.published import published_of, published_table
from expograph.analysis.written import UNAVAILABLE, name_of
from expograph.claims.outcome import LEDGERS, VERDICTS
from expograph.graphs.theory import RATES
from expograph.graphs.topology import explained, is_random, names
from expograph.report import charts, graphs, panels, reading
from expograph.report.grids import grid, of_text, run_links
from expograph.report.layout import visible
from expograph.report.ledger import ledger
from expograph.report.ledger_markdown import DECIDED, HEADINGS
from expograph.report.origins import origins
from expograph.report.reading import Group, ReportError, Scale
from expograph.report.style import COLOURS
from expograph.runs.provenance import provenance

FACTS = (4, 6, 8, 12, 16, 32, 64)  # nodes for which a topology's page lists its costs
COSTS = (  # folder of results/, heading, what makes it
    ("cost_model", "Hours, predicted and published", "make cost-model"),
    (
        "wall_clock/testbed_1gbit",
        "Accuracy against seconds, virtual cluster, 1 Gbit/s",
        "make wall-clock",
    ),
    (
        "wall_clock/testbed_100mbit",
        "Accuracy against seconds, virtual cluster, 100 Mbit/s",
        "make wall-clock",
    ),
    ("bench_comm/testbed_1gbit", "Time of a step, virtual cluster, 1 Gbit/s", "make testbed"),
    (
        "bench_comm/testbed_100mbit",
        "Time of a step, virtual cluster, 100 Mbit/s",
        "make testbed RATE=100mbit",
    ),
    ("bench_comm/one_machine", "Time of a step, one machine", "make bench-comm"),
)
LIBRARY = "vega.js"
DOCUMENTATION = ("build/docs/index.html", "docs")  # the site that `make docs` builds, or its pages
MADE = ".made"  # in the folder: the paths of the files that are ours
DATA = ("table.csv", "table.json", "transients.csv")  # copied; curves are in their charts


def build(root: Path, target: Path, configs: Path = Path("configs")) -> Path:
    """Write the report of the results under `root` into the folder `target`.

    It is built beside `target` and then takes its place, so that no reader meets half of it; what
    others have put into the folder stays. What has not been run is named with the command that
    makes it.

    Args:
        configs: the folder of experiments, published numbers and claims.
    Returns:
        target/index.html.
    Raises:
        ReportError: a file of the results is there but cannot be read, or `target` holds something
            else, which is left alone, or cannot be written; one line with its name.
        ConfigError: a config is wrong.
    """
    target = target.resolve()  # a link stays one
    if target.exists() and not target.is_dir():
        raise ReportError(f"{target}: is no folder; name another")
    if target.exists() and not (target / LIBRARY).exists() and any(target.iterdir()):
        raise ReportError(f"{target}: holds something other than a report; name another folder")
    if not configs.is_dir():
        raise ReportError(f"no {configs}/ here: run it where the repository's configs are")
    beside: dict[str, Any] = {"prefix": f".{target.name}.", "suffix": ".tmp", "dir": target.parent}
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(**beside))
    except OSError as e:
        raise ReportError(f"{target}: {e.strerror}") from None
    try:
        _write(root, temporary, configs, _documentation(configs.resolve().parent, target))
        made = "".join(f"{path}\n" for path in _files(temporary))
        (temporary / MADE).write_text(made, encoding="utf-8")
        temporary.chmod(0o755)
        old = temporary.with_suffix(".old.tmp")
        if target.exists():
            target.rename(old)
        try:
            temporary.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
        _keep_others(old, target)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target / "index.html"


def _files(folder: Path) -> list[str]:
    """The files under a folder, as paths from there."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def _keep_others(old: Path, new: Path) -> None:
    """Move what is not a report's from its former folder into the one that took its place."""
    if not (old / MADE).exists():
        return
    ours = {MADE, *(old / MADE).read_text(encoding="utf-8").splitlines()}
    for name in _files(old):
        if name not in ours and not (new / name).exists():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            (old / name).rename(new / name)


def _documentation(repository: Path, target: Path) -> str | None:
    """How a page in `target` links to the documentation: the first that is there, if any."""
    there = [repository / name for name in DOCUMENTATION if (repository / name).exists()]
    return Path(os.path.relpath(there[0], target.resolve())).as_posix() if there else None


def _write(root: Path, folder: Path, configs: Path, documentation: str | None) -> None:
    groups = reading.groups(root, configs)
    claims = ledger(root, groups)
    ledgers = {HEADINGS[name]: [c for c in claims if c["ledger"] == name] for name in LEDGERS}
    render = _Renderer(folder, groups, documentation)
    counts = {v: sum(c["verdict"] == v for c in claims) for v in VERDICTS}
    render(
        "index",
        "index",
        "Exponential graphs for decentralized training, reproduced",
        ledgers=ledgers,
        counts=counts,
        made=provenance(),
    )
    render("claims", "claims", "Claims, measured", ledgers=ledgers, decided=DECIDED)
    for group in groups:
        shown = [_shown(scale, root) for scale in group.scales]
        charted = any(part["charts"] for part in shown)
        render("experiment", group.id, group.title, group=group, parts=shown, charted=charted)
        for scale in group.scales:
            if scale.runs is not None:
                title = f"Runs of {scale.name}"
                render("runs", f"{scale.name}-runs", title, **origins(scale, group, root))
            _copy(root / scale.name, folder / "data" / scale.name, DATA)
    render("figures", "figures", "Figures", figures=_figures(groups), charted=True)
    render("costs", "costs", "What averaging and training cost", costs=_costs(root, folder))
    render("topologies", "topologies", "Topologies")
    for name in names():
        (folder / f"topology-{name}.svg").write_text(panels.thumbnail(name))
        render(
            "topology",
            f"topology-{name}",
            f"The {name_of(name)} graph",
            random=is_random(name),
            explained=explained(name),
            facts=of_text(graphs.facts(name, FACTS)),
            rate=RATES.get(name),
            drawn=panels.topology(name),
            charted=True,
        )
    (folder / LIBRARY).write_text(charts.library())


class _Renderer:
    """Templates to pages, with what all pages share."""

    def __init__(self, folder: Path, groups: list[Group], documentation: str | None) -> None:
        self.folder = folder
        self.environment = Environment(
            loader=PackageLoader("expograph.report"),
            autoescape=select_autoescape(["html.j2"]),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.filters |= {
            "name_of": name_of,
            "slug": _slug,
            "ticks": _ticks,
            "dedent": textwrap.dedent,
        }
        self.environment.globals |= {
            "groups": groups,
            "topologies": names(),
            "colours": COLOURS,
            "unavailable": UNAVAILABLE,
            "documentation": documentation,
        }
        style = self.environment.get_template("style.css.j2").render()
        (folder / "style.css").write_text(style)

    def __call__(self, template: str, name: str, title: str, charted: bool = False, **known: Any):
        page = self.environment.get_template(f"{template}.html.j2")
        text = page.render(title=title, page=name, charted=charted, **known)
        (self.folder / f"{name}.html").write_text(text + "\n")


def _shown(scale: Scale, root: Path) -> dict[str, Any]:
    """What an experiment's page shows of one scale."""
    links, tables = run_links(scale), visible(scale.tables) if scale.tables else []
    published = published_table(scale.experiment) if not tables else None
    drawn = [panels.training(scale), panels.transients(scale)]
    return {
        "scale": scale,
        "grids": [grid(table, links) for table in tables],
        "notes": scale.tables.notes if scale.tables else (),
        "published": grid(published) if published else None,
        "source": published_of(scale.experiment).source,
        "charts": [chart for chart in drawn if chart],
        "data": [name for name in DATA if (root / scale.name / name).exists()],
    }


def _figures(groups: list[Group]) -> list[dict[str, Any]]:
    """The figures that need no training, and where those are that do."""
    scales = [scale for group in groups for scale in group.scales]
    growth = [chart for scale in scales if (chart := panels.transients(scale))]
    return [
        {"title": "Spectral gap against n", "charts": [panels.gaps()]},
        {"title": "Consensus error of pure averaging", "charts": [panels.consensus()]},
        {"title": "Transient iterations against n", "charts": growth},
    ]


def _costs(root: Path, folder: Path) -> list[dict[str, Any]]:
    """What was measured and predicted of times: tables, and pictures copied beside the pages."""
    found = []
    for name, heading, command in COSTS:
        place = root / name
        tables = reading.tables(place)
        grids = [grid(table) for table in visible(tables)] if tables else []
        names = [path.name for path in sorted(place.glob("*.svg"))]
        _copy(place, folder / "data" / name, names)
        pictures = [f"data/{name}/{picture}" for picture in names]
        found.append({"title": heading, "command": command, "grids": grids, "pictures": pictures})
    return found


def _copy(source: Path, target: Path, names: Any) -> None:
    for name in names:
        if (source / name).exists():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, target / name)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _ticks(text: str) -> Markup:
    """Text whose `words between backticks` become code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
