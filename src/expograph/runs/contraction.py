"""At recorded steps: does averaging bring the workers nearer to each other, as it must?"""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from expograph.algorithms.base import Mix, Mixed, Wait
from expograph.engines import Engine

ROUNDING = 1e-5  # of the norm of all rows: what float32 sums may be off by


class NotContracting(RuntimeError):
    """An average by a doubly stochastic matrix has spread the workers: the engine is at fault."""


def checked(mix: Mix, engine: Engine, step: int) -> Mix:
    """The mix of a doubly stochastic W, which looks at what it has done.

    ||W X - J X|| <= ||X - J X|| in the Frobenius norm, as ||W|| <= 1 and W J = J. Every rank calls
    it; whatever is not finite passes, which the loop notices.

    Args:
        mix: of step - 1, the matrix of which must be doubly stochastic.
        engine: the one that has made it.
        step: steps done once it has mixed, for the error.
    Raises:
        NotContracting: by the mix, in one line, if the rows are further from their mean after it
            than before, beyond rounding.
    """

    def spread(x: Tensor) -> tuple[float, float]:
        """||X - J X|| and ||X||, of all workers' rows."""
        x = x.flatten(1)
        mean = engine.mean(x)
        around = float(engine.gather((x - mean).square().sum(dim=1)).double().sum())
        return around**0.5, (around + engine.n * float(mean.double().square().sum())) ** 0.5

    def seen(start: Callable[..., Wait], *arrays: Tensor) -> Wait:
        wait = start(*arrays)

        def end() -> Mixed:
            mixed = wait()
            for x, y in zip(arrays, [mixed] if isinstance(mixed, Tensor) else mixed, strict=True):
                before, norm = spread(x)
                after, _ = spread(y)
                if before + ROUNDING * norm < after < float("inf"):
                    raise NotContracting(
                        f"step {step}: averaging took the workers from {before:.6g} to {after:.6g} "
                        "from their mean, which no doubly stochastic matrix does"
                    )
            return mixed

        return end

    start, average = partial(seen, mix.start), partial(seen, mix.start_average)
    return Mix(start, average, mix.start_coded, mix.k)
