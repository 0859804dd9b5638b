"""Where the time of a rank goes: packing, waiting and the wire; what is left is compute.

`write` makes a trace that a browser's trace viewer (Perfetto, chrome://tracing) opens.
"""

import json
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from expograph import files

KEPT = 100_000  # events; older ones are only in the totals
KINDS = ("packing", "waiting", "wire")

Seconds = dict[str, float]  # "compute", and those of KINDS


class Span(NamedTuple):
    """One stretch of time, in seconds of `time.perf_counter`."""

    kind: str
    start: float
    end: float


class Timeline:
    """What one rank has spent its time with.

    packing   values into messages and back
    waiting   for messages, and making their weighted sums
    wire      from the start of a message to the end of the wait for it: at most so long it travels;
              it overlaps with the others

    Attributes:
        spans: the latest ones.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget what was, and count from now."""
        self.spans: deque[Span] = deque(maxlen=KEPT)
        self._began = time.perf_counter()
        self._total = dict.fromkeys(KINDS, 0.0)

    @contextmanager
    def span(self, kind: str) -> Iterator[None]:
        """What is done inside is of this kind."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(kind, start)

    def add(self, kind: str, start: float) -> None:
        """Something of this kind has been going on since `start`, until now."""
        end = time.perf_counter()
        self.spans.append(Span(kind, start, end))
        self._total[kind] += end - start

    def seconds(self) -> Seconds:
        """Seconds since the start by kind; compute is what is neither packing nor waiting."""
        elapsed = time.perf_counter() - self._began
        busy = elapsed - self._total["packing"] - self._total["waiting"]
        return {"compute": max(0.0, busy), **self._total}

    def write(self, path: Path, rank: int) -> None:
        """Write the spans as a trace: a row a kind, the process is the rank."""
        events = [
            {
                "name": kind,
                "ph": "X",
                "ts": 1e6 * start,
                "dur": 1e6 * (end - start),
                "pid": rank,
                "tid": KINDS.index(kind),
            }
            for kind, start, end in self.spans
        ]
        named = [
            {"name": "thread_name", "ph": "M", "pid": rank, "tid": i, "args": {"name": kind}}
            for i, kind in enumerate(KINDS)
        ]
        process = {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}}
        files.replace_text(path, json.dumps({"traceEvents": [process, *named, *events]}))


def summary(jobs: Iterable[Sequence[Seconds]]) -> str | None:
    """One line of the shares of all ranks' time in these runs; None if nothing is known."""
    ranks = [seconds for job in jobs for seconds in job]
    total = sum(one["compute"] + one["packing"] + one["waiting"] for one in ranks)
    if not total:
        return None
    shares = {kind: sum(one[kind] for one in ranks) / total for kind in ranks[0]}
    busy = ", ".join(f"{kind} {shares[kind]:.0%}" for kind in ("compute", "packing", "waiting"))
    return f"the ranks' training time: {busy}; messages were on the wire for {shares['wire']:.0%}"
