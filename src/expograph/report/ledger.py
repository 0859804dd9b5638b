"""The ledger of claims, for its page: claims.json with links to the runs behind it."""

from pathlib import Path
from typing import Any

from expograph.claims.ledger import LedgerError, load
from expograph.claims.outcome import Finding
from expograph.report.reading import Group, ReportError, Scale


def ledger(root: Path, groups: list[Group]) -> list[dict[str, Any]]:
    """The ledger: each claim with its parts, and links to the runs they rest on.

    Raises:
        ReportError: claims.json is damaged; one line.
    """
    try:
        kept = load(root)
    except LedgerError as e:
        raise ReportError(str(e)) from None
    claims = kept.claims if kept else ()
    homes: dict[str, list[Scale]] = {}
    for scale in (scale for group in groups for scale in group.scales):
        for key in () if scale.runs is None else scale.runs["key"]:
            homes.setdefault(key, []).append(scale)
    return [_entry(claim, homes) for claim in claims]


def _entry(claim: Finding, homes: dict[str, list[Scale]]) -> dict[str, Any]:
    """What the templates want of a claim."""
    keys = list(dict.fromkeys(key for part in claim.parts for key in part.runs))
    return {
        "id": claim.id,
        "statement": claim.statement,
        "source": claim.source,
        "verdict": claim.verdict,
        "ledger": claim.ledger,
        "endpoint": claim.counts(primary=True),
        "beside": claim.counts(primary=False),
        "parts": claim.parts,
        "runs": _rests_on(keys, homes, claim.config),
    }


def _rests_on(
    keys: list[str], homes: dict[str, list[Scale]], config: str | None
) -> list[dict[str, Any]]:
    """Runs by the experiment they are listed under: its own config's first.

    Its `keys` are empty where all its runs are meant, which need not be listed.
    """
    by_scale: dict[str, tuple[Scale, list[str]]] = {}
    for key in keys:
        places = sorted(homes.get(key, []), key=lambda scale: not _of(scale, config))
        if places:
            by_scale.setdefault(places[0].name, (places[0], []))[1].append(key)
    return [
        {
            "name": name,
            "count": len(found),
            "keys": [] if scale.runs is not None and len(found) == len(scale.runs) else found,
        }
        for name, (scale, found) in by_scale.items()
    ]


def _of(scale: Scale, config: str | None) -> bool:
    """Whether a scale has the runs of this config, on the engine it names."""
    path = scale.experiment.path
    return scale.name == scale.experiment.name and path.name == Path(config or "").name
