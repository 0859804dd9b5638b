"""Rough seconds of work in a run: to order a sweep and to tell the time that is left."""

from expograph.config import Run

# Seconds a training sample takes on one core, a convex step, and what it takes more for each
# worker: for estimates, nothing else.
SECONDS_PER_SAMPLE = {
    "linear": 2e-5,
    "mlp": 6e-5,
    "cnn": 1.7e-4,
    "resnet8_bn": 4.5e-4,
    "resnet8_gn": 4.5e-4,
    "retinanet_small": 2e-3,
    "faster_rcnn_small": 3e-3,
}
CONVEX = ("logistic", "least_squares")
SECONDS_PER_STEP, SECONDS_PER_WORKER_STEP = 1e-4, 2e-6


def is_known(run: Run) -> bool:
    """Whether `cost` knows how long the run's samples take, or only guesses."""
    return run.trained in (*SECONDS_PER_SAMPLE, *CONVEX)


def cost(run: Run) -> float:
    """Seconds on one core of a usual machine."""
    if run.problem.kind in CONVEX:
        return run.steps * (SECONDS_PER_STEP + SECONDS_PER_WORKER_STEP * run.ranks)
    per_sample = SECONDS_PER_SAMPLE.get(run.trained, 1e-2)
    accumulation = getattr(run.problem, "accumulation", 1)
    trained = run.steps * run.ranks * getattr(run.problem, "batch_size", 32) * accumulation
    return per_sample * (trained + 1000 * run.ranks)  # the local models' evaluation at the end
