"""Where the training time of a job's ranks goes: computing, packing, waiting, the wire.

Every run of a job records it; EXPOGRAPH_TRACE=FOLDER also keeps a trace of each rank, a file that
a browser's trace viewer opens.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from expograph.algorithms import Mix
from expograph.cluster.timeline import KINDS, Seconds, Timeline
from expograph.engines import Engine

TRACES = "EXPOGRAPH_TRACE"  # environment: a folder for traces


class Traced:
    """An engine whose messages are timed; all else is the engine's own.

    Attributes:
        timeline: what the messages of this process have taken.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self.timeline = engine, Timeline()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def mixer(self, k: int) -> Mix:
        """The engine's `mix` of message k, timed."""
        mix = self._engine.mixer(k)
        timed = self._timed
        return Mix(timed(mix.start), timed(mix.start_average), timed(mix.start_coded), mix.k)

    def _timed(self, start: Callable[..., Callable[[], Any]]) -> Callable[..., Callable[[], Any]]:
        def timed(*words: Any) -> Callable[[], Any]:
            begun = time.perf_counter()
            with self.timeline.span("packing"):
                wait = start(*words)

            def finished() -> Any:
                with self.timeline.span("waiting"):
                    received = wait()
                self.timeline.add("wire", begun)
                return received

            return finished

        return timed

    def seconds(self, trained: float) -> Seconds:
        """Of the `trained` seconds, how many each kind took; compute is the rest."""
        spent = self.timeline.seconds()
        busy = spent["packing"] + spent["waiting"]
        kinds = {"compute": max(0.0, trained - busy), **{kind: spent[kind] for kind in KINDS}}
        return {kind: round(value, 4) for kind, value in kinds.items()}

    def write(self, key: str, rank: int) -> None:
        """Keep this rank's trace of the run, if the environment names a folder."""
        if folder := os.environ.get(TRACES):
            place = Path(folder)
            place.mkdir(parents=True, exist_ok=True)
            self.timeline.write(place / f"{key}.rank{rank}.json", rank)
