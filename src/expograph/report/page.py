"""The report: a static site made of results/, which opens from disk without a network.

    index.html  claims.html  figures.html  costs.html  topologies.html  topology-<name>.html
    <experiment>.html        its tables and curves at every scale
    <experiment>-runs.html   where each of its runs comes from

Pages are Jinja templates (`templates/`), charts Vega-Lite specifications (`charts.py`), drawn by
one script that lies beside the pages.
"""

import re
import shutil
import tempfile
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from expograph.config import METRICS, Run, published_numbers
from expograph.provenance import provenance
from expograph.report import charts, graphs, panels, reading
from expograph.report.reading import Damaged, Group, Scale
from expograph.report.style import COLOURS, name_of
from expograph.report.tables import UNAVAILABLE, Published
from expograph.theory import RATES
from expograph.topology import RANDOM, TOPOLOGIES

FACTS = (4, 6, 8, 12, 16, 32, 64)  # nodes for which a topology's page lists its costs
VERDICTS = ("reproduced", "partly", "not reproduced", "not measured")
COSTS = (  # folder of results/, heading, what makes it
    ("cost_model", "Hours, predicted and published", "make cost-model"),
    ("bench_comm/testbed_1gbit", "Time of a step, virtual cluster, 1 Gbit/s", "make testbed"),
    (
        "bench_comm/testbed_100mbit",
        "Time of a step, virtual cluster, 100 Mbit/s",
        "make testbed RATE=100mbit",
    ),
    ("bench_comm/one_machine", "Time of a step, one machine", "make bench-comm"),
)
DATA = ("table.csv", "curves.csv", "seeds.csv", "transients.csv")


class Cell(NamedTuple):
    """A table's cell: its text, and where a click leads."""

    text: str
    link: str = ""


class Grid(NamedTuple):
    """A table as the templates want it.

    Attributes:
        heading: "" for none.
        columns: heading and whether the column quotes published numbers.
        rows: of cells.
    """

    heading: str
    columns: list[tuple[str, bool]]
    rows: list[list[Cell]]


def build(root: Path, target: Path, configs: Path = Path("configs")) -> Path:
    """Write the report of the results under `root` into the folder `target`.

    It is built beside `target` and then takes its place, so that no reader meets half of it.
    What has not been run is named with the command that makes it.

    Args:
        configs: the folder of experiments, published numbers and claims.
    Returns:
        target/index.html.
    Raises:
        Damaged: a file of the results is there but cannot be read; one line with its name.
        ConfigError: a config is wrong.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        _write(root, temporary, configs)
        temporary.chmod(0o755)
        old = temporary.with_suffix(".old.tmp")
        if target.exists():
            target.rename(old)
        temporary.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target / "index.html"


def _write(root: Path, folder: Path, configs: Path) -> None:
    groups = reading.groups(root, configs)
    claims = _claims(root, configs, groups)
    render = _Renderer(folder, groups)
    counts = {v: sum(c["verdict"] == v for c in claims) for v in VERDICTS}
    render("index", "index", "Overview", claims=claims, counts=counts, made=provenance())
    render("claims", "claims", "The paper's claims, measured", claims=claims)
    for group in groups:
        shown = [_shown(scale, root) for scale in group.scales]
        charted = any(part["charts"] for part in shown)
        render("experiment", group.id, group.title, group=group, parts=shown, charted=charted)
        for scale in group.scales:
            if scale.runs is not None:
                title = f"Runs of {scale.name}"
                render("runs", f"{scale.name}-runs", title, **_runs(scale, group, root))
            _copy(root / scale.name, folder / "data" / scale.name, DATA)
    render("figures", "figures", "Figures", figures=_figures(groups), charted=True)
    render("costs", "costs", "What averaging and training cost", costs=_costs(root, folder))
    render("topologies", "topologies", "Topologies")
    for name in TOPOLOGIES:
        (folder / f"topology-{name}.svg").write_text(panels.thumbnail(name))
        render(
            "topology",
            f"topology-{name}",
            f"The {name_of(name)} graph",
            random=name in RANDOM,
            explained=graphs.explained(name),
            facts=_grid(graphs.facts(name, FACTS)),
            rate=RATES.get(name),
            drawn=panels.topology(name),
            charted=True,
        )
    (folder / "vega.js").write_text(charts.library())


class _Renderer:
    """Templates to pages, with what all pages share."""

    def __init__(self, folder: Path, groups: list[Group]) -> None:
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
            "topologies": TOPOLOGIES,
            "colours": COLOURS,
            "unavailable": UNAVAILABLE,
        }
        style = self.environment.get_template("style.css.j2").render()
        (folder / "style.css").write_text(style)

    def __call__(self, template: str, name: str, title: str, charted: bool = False, **known: Any):
        page = self.environment.get_template(f"{template}.html.j2")
        text = page.render(title=title, page=name, charted=charted, **known)
        (self.folder / f"{name}.html").write_text(text + "\n")


# ---- tables ----------------------------------------------------------------------------------


def _grid(frame: pd.DataFrame, heading: str = "", links: dict[tuple, str] | None = None) -> Grid:
    """A frame of text with links: names of topologies to their pages, cells by (row, column)."""
    pages = {name_of(name): f"topology-{name}.html" for name in TOPOLOGIES}
    columns = [(str(c), "published" in str(c)) for c in frame.columns]
    rows = [
        [
            Cell(str(value), (links or {}).get((i, column)) or pages.get(str(value), ""))
            for column, value in zip(frame.columns, row, strict=True)
        ]
        for i, row in enumerate(frame.itertuples(index=False))
    ]
    return Grid(heading, columns, rows)


def _published(scale: Scale) -> tuple[Grid, Published] | None:
    """The published numbers that an experiment will stand beside, as a table of their own."""
    experiment = scale.experiment
    if not (experiment.table and experiment.table.published):
        return None
    found = Published(experiment.table.published, published_numbers(experiment.path))
    frame = pd.DataFrame(
        [
            {"topology": name_of(row)} | {f"{n} nodes, published": v for n, v in cells.items()}
            for row, cells in found.cells.items()
        ]
    )
    return _grid(frame.fillna(UNAVAILABLE), found.caption), found


def _cell_links(scale: Scale, frame: pd.DataFrame) -> dict[tuple, str]:
    """(row number, column) -> the runs behind a pivot table's cell."""
    table = scale.experiment.table
    if scale.runs is None or table is None or table.kind != "pivot":
        return {}
    keys = [key.rsplit(".", 1)[-1] for key in table.rows]
    if not set(keys) <= set(frame):
        return {}
    targets: dict[tuple, set[str]] = {}
    grouped = panels.grouped(scale.runs)
    if not {*table.rows, table.column} <= set(grouped):
        return {}
    for setting in grouped.to_dict("records"):
        value = setting[table.column]
        column = f"{value} nodes" if table.column == "nodes" else name_of(value)
        where = (*(_plain(name_of(setting[key])) for key in table.rows), column)
        targets.setdefault(where, set()).add(setting["run"])
    return {
        (i, column): f"{scale.name}-runs.html#{min(found)}"
        for i, row in enumerate(frame.to_dict("records"))
        for column in frame.columns
        if (found := targets.get((*(_plain(row[key]) for key in keys), column)))
    }


def _plain(text: str) -> str:
    """A number in its shortest form: 1.0 in one file is 1 in another."""
    try:
        return f"{float(text):g}"
    except ValueError:
        return text


# ---- experiments -----------------------------------------------------------------------------


def _shown(scale: Scale, root: Path) -> dict[str, Any]:
    """What an experiment's page shows of one scale."""
    grids = [
        _grid(frame, heading, _cell_links(scale, frame) if "difference" not in heading else None)
        for heading, frame in (scale.frames or {}).items()
    ]
    drawn = [panels.training(scale), panels.transients(scale)]
    return {
        "scale": scale,
        "grids": grids,
        "published": None if scale.frames else _published(scale),
        "charts": [chart for chart in drawn if chart],
        "data": [name for name in DATA if (root / scale.name / name).exists()],
    }


def _runs(scale: Scale, group: Group, root: Path) -> dict[str, Any]:
    """Everything about the runs of one scale: where from, what they share, each of them."""
    runs = scale.runs
    keys = panels.settings(runs)
    heads = set(Run.model_fields)
    config = [c for c in runs if c.split(".")[0] in heads and c != "seed"]
    shared = {c: runs[c].iloc[0] for c in config if runs[c].nunique(dropna=False) == 1}
    told = {"key", "status", "seed", "commit", "code", "step", *config}
    metrics = [c for c in runs if c not in told and pd.api.types.is_numeric_dtype(runs[c])]
    metrics = [m for m in metrics if runs[m].notna().any()]
    makers = scale.provenance.get("made_by", [])
    settings = []
    for (_, setting), (_, members) in zip(
        panels.grouped(runs).iterrows(), runs.groupby(keys, sort=False, dropna=False), strict=True
    ):
        rows = [
            {
                "key": run["key"],
                "seed": run["seed"],
                "status": run["status"],
                "metrics": [_number(run[m]) for m in metrics],
                "makers": [
                    i
                    for i, maker in enumerate(makers)
                    if (maker.get("commit"), maker.get("code"))
                    == (run.get("commit"), run.get("code"))
                ],
                "record": reading.record(root / "runs" / str(run["key"]) / "run.json"),
            }
            for run in members.to_dict("records")
        ]
        words = [f"{key.rsplit('.', 1)[-1]} {name_of(setting[key])}" for key in keys]
        varies = [c for c in config if c not in shared and c not in keys]
        words += [f"{c.rsplit('.', 1)[-1]} {members[c].iloc[0]}" for c in varies]
        settings.append({"id": setting["run"], "words": ", ".join(words), "rows": rows})
    return {
        "scale": scale,
        "group": group,
        "shared": {k: v for k, v in shared.items() if not pd.isna(v)},
        "metrics": [(m, METRICS.get(m, m)) for m in metrics],
        "makers": makers,
        "settings": settings,
        "timed": any(row["record"] for setting in settings for row in setting["rows"]),
    }


def _number(value: Any) -> str:
    return "" if pd.isna(value) else f"{value:.5g}"


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
        frames = reading.table(place / "table.csv")
        grids = [_grid(frame, title) for title, frame in (frames or {}).items()]
        # the paper's own hours first
        grids.sort(key=lambda grid: not any(published for _, published in grid.columns))
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


# ---- claims ----------------------------------------------------------------------------------


def _claims(root: Path, configs: Path, groups: list[Group]) -> list[dict[str, Any]]:
    """The ledger: each claim with its parts, and links to the runs they rest on."""
    path = root / "claims.csv"
    columns = ("claim", "verdict", "part", "holds", "evidence", "runs")
    found = reading.csv(path, columns, dtype=str, keep_default_na=False)
    stated = reading.statements(configs / "claims.toml")
    if found is None:
        return []
    homes: dict[str, list[Scale]] = {}
    for scale in (s for g in groups for s in g.scales if s.runs is not None):
        for key in scale.runs["key"]:
            homes.setdefault(key, []).append(scale)
    ledger = []
    for id, parts in found.groupby("claim", sort=False):
        (verdict, *other) = parts["verdict"].unique()
        if other or verdict not in VERDICTS:
            raise Damaged(f"{path}: claim {id}: verdicts {', '.join([verdict, *other])}")
        about = stated.get(id, {})
        config = about.get("with", {}).get("config", "")
        keys = list(dict.fromkeys(key for runs in parts["runs"] for key in runs.split()))
        ledger.append(
            {
                "id": id,
                "statement": about.get("statement", id),
                "source": about.get("source", ""),
                "verdict": verdict,
                "held": int((parts["holds"] == "yes").sum()),
                "parts": parts.to_dict("records"),
                "runs": _rests_on(keys, homes, Path(config).stem),
            }
        )
    return ledger


def _rests_on(keys: list[str], homes: dict[str, list[Scale]], config: str) -> list[dict[str, Any]]:
    """Runs by the experiment they are listed under: its own config's first.

    `keys` is empty where all runs of the experiment are meant, which need not be listed.
    """
    by_scale: dict[str, tuple[Scale, list[str]]] = {}
    for key in keys:
        places = sorted(homes.get(key, []), key=lambda scale: scale.name != config)
        if places:
            by_scale.setdefault(places[0].name, (places[0], []))[1].append(key)
    return [
        {
            "name": name,
            "count": len(found),
            "keys": [] if len(found) == len(scale.runs) else found,
        }
        for name, (scale, found) in by_scale.items()
    ]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _ticks(text: str) -> Markup:
    """Text whose `words between backticks` become code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
