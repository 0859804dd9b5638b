"""The ledger of claims, for its page: claims.csv with the statements and the runs behind it."""

from pathlib import Path
from typing import Any

from expograph.report import reading
from expograph.report.reading import Group, ReportError, Scale

VERDICTS = ("reproduced", "partly", "undecided", "not reproduced", "not measured")


def ledger(root: Path, configs: Path, groups: list[Group]) -> list[dict[str, Any]]:
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
    entries = []
    for id, parts in found.groupby("claim", sort=False):
        (verdict, *other) = parts["verdict"].unique()
        if other or verdict not in VERDICTS:
            raise ReportError(f"{path}: claim {id}: verdicts {', '.join([verdict, *other])}")
        about = stated.get(id, {})
        config = about.get("with", {}).get("config", "")
        keys = list(dict.fromkeys(key for runs in parts["runs"] for key in runs.split()))
        entries.append(
            {
                "id": id,
                "statement": about.get("statement", id),
                "source": about.get("source", ""),
                "verdict": verdict,
                "counts": ", ".join(
                    f"{count} {holds}" for holds, count in parts["holds"].value_counts().items()
                ),
                "parts": parts.to_dict("records"),
                "runs": _rests_on(keys, homes, Path(config).stem),
            }
        )
    return entries


def _rests_on(keys: list[str], homes: dict[str, list[Scale]], config: str) -> list[dict[str, Any]]:
    """Runs by the experiment they are listed under: its own config's first.

    Its `keys` are empty where all its runs are meant, which need not be listed.
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
