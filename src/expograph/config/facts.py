"""What a config check must know of the packages, as plain data: nothing here imports them.

The packages themselves need torch, whose import takes seconds; a mistake in a config is said
without it. Tests hold each entry against its package (`tests/test_facts.py`,
`tests/test_config_facts.py`). What is added to a package gets its line here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from expograph import names


@dataclass(frozen=True)
class AlgorithmFacts:
    """An algorithm of `expograph.algorithms`.

    Attributes:
        over_exact: the algorithm that it becomes over exact averaging, its reference; "psgd" where
            that is parallel SGD with the same momentum.
        momentum: whether it uses beta.
        exact: whether it is defined for exact averaging only.
        stochastic: which sums of its matrices must be one.
        needs: what else they must be: "static", "symmetric", "flat".
        parameters: name -> default of what its spelling may set: `name(parameter=value)`; what
            they mean and may be: `rule_parameters`.
    """

    over_exact: str
    momentum: bool = True
    exact: bool = False
    stochastic: Literal["doubly", "row", "column"] = "doubly"
    needs: tuple[Literal["static", "symmetric", "flat"], ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)


_ADAM = {"beta2": 0.999, "eps": 1e-8}
ALGORITHMS: dict[str, AlgorithmFacts] = {
    "psgd": AlgorithmFacts("psgd", exact=True),
    "dsgd_atc": AlgorithmFacts("psgd", momentum=False),
    "dsgd_cta": AlgorithmFacts("dsgd_cta", momentum=False),
    "dsgd_awc": AlgorithmFacts("dsgd_awc", momentum=False),
    "vanilla_dmsgd": AlgorithmFacts("psgd"),
    "dmsgd": AlgorithmFacts("psgd"),
    "dmsgd_delayed": AlgorithmFacts("dmsgd_delayed"),
    "qg_dmsgd": AlgorithmFacts("qg_dmsgd"),
    "decentlam": AlgorithmFacts("psgd", needs=("static", "symmetric")),
    "gradient_tracking": AlgorithmFacts("psgd", momentum=False),
    "exact_diffusion": AlgorithmFacts("exact_diffusion", needs=("symmetric",)),
    "momentum_tracking": AlgorithmFacts("momentum_tracking"),
    "sgp": AlgorithmFacts("psgd", stochastic="column"),
    "gossip_pga": AlgorithmFacts("psgd", parameters={"every": 6}),
    "local_sgd": AlgorithmFacts(
        "local_sgd", parameters={"every": 8, "outer_lr": 1.0, "outer_beta": 0.0}
    ),
    "slowmo": AlgorithmFacts("slowmo", parameters={"every": 12, "slow_lr": 1.0, "slow_beta": 0.5}),
    "accum_adam": AlgorithmFacts("accum_adam", parameters={"cycle": 4, **_ADAM}),
    "diloco": AlgorithmFacts(
        "diloco", parameters={"every": 100, "outer_lr": 0.7, "outer_beta": 0.9, **_ADAM}
    ),
    "noloco": AlgorithmFacts(
        "noloco",
        parameters={"every": 100, "outer_lr": 0.7, "outer_beta": 0.5, "pull": 1.0, **_ADAM},
    ),
    "choco_int": AlgorithmFacts(
        "choco_int", needs=("static", "flat"), parameters={"bits": 8, "consensus_lr": 1.0}
    ),
    "choco_topk": AlgorithmFacts(
        "choco_topk", needs=("static", "flat"), parameters={"fraction": 0.1, "consensus_lr": 0.2}
    ),
    "sparta": AlgorithmFacts("sparta", parameters={"fraction": 0.005}),
}


def algorithm(spelling: str) -> AlgorithmFacts:
    """The facts of an algorithm, given with or without its parameters.

    Raises:
        ValueError: if there is no such algorithm.
    """
    return ALGORITHMS[names.known("algorithm", names.parse(spelling)[0], ALGORITHMS)]


def over_exact(spelling: str) -> str:
    """The algorithm that another one is compared with: itself over exact averaging.

    Raises:
        ValueError: if there is no such algorithm.
    """
    reference = algorithm(spelling).over_exact
    return spelling if reference == names.parse(spelling)[0] else reference


def is_reference(spelling: str, topology: str) -> bool:
    """Whether runs of this algorithm over this topology are what others are compared with."""
    return topology == "fully_connected" and over_exact(spelling) == spelling


@dataclass(frozen=True)
class ProblemFacts:
    """A kind of problem of `expograph.problems`.

    Attributes:
        metrics: what its `evaluate` returns -> how a table heads it.
        minimiser: whether the minimiser is known, so that there are errors to compare.
    """

    metrics: Mapping[str, str]
    minimiser: bool = False


_ERRORS = {
    "error_workers": "1/n sum of |x_i - x*|^2",
    "error_averaged": "|x_bar - x*|^2",
    "suboptimality": "f(x_bar) - f(x*)",
}
_MEASURED = {  # of each score of a problem of a user's own: suffix of the metric -> heading's end
    "_averaged": " of the averaged model",
    "_worker_mean": ", mean over the local models",
}
PROBLEMS: dict[str, ProblemFacts] = {
    "logistic": ProblemFacts(_ERRORS, minimiser=True),
    "least_squares": ProblemFacts(_ERRORS, minimiser=True),
    "classification": ProblemFacts(
        {
            "accuracy_averaged": "test accuracy (%) of the averaged model",
            "accuracy_worker_mean": "test accuracy (%), mean over the local models",
            "accuracy_worker_worst": "test accuracy (%) of the worst local model",
            "accuracy_worker_best": "test accuracy (%) of the best local model",
            "test_loss_averaged": "test cross-entropy of the averaged model",
        }
    ),
    "detection": ProblemFacts(
        {
            "map_50": "mAP (%) at IoU 0.5 of the averaged model",
            "map": "mAP (%) over IoU 0.5 to 0.95 of the averaged model",
            "map_50_worker_mean": "mAP (%) at IoU 0.5, mean over the local models",
            "map_50_worker_worst": "mAP (%) at IoU 0.5 of the worst local model",
        }
    ),
    "own": ProblemFacts({f"loss{suffix}": f"loss{end}" for suffix, end in _MEASURED.items()}),
}
RECORDED = {  # what the training loop records of every run -> how a table heads it
    "train_loss": "training loss of the last step, mean over the workers",
    "consensus_distance": "consensus distance, 1/n sum of |x_i - x_bar|^2",
    "bytes_sent_mean": "bytes sent by a worker, mean over the workers",
    "bytes_sent_max": "bytes sent by the busiest worker",
    "train_seconds": "seconds of training, without evaluation",
    "lr": "step size of the last step",
}
FINAL = "final_"  # in summaries, before a metric whose name is a config key's too
OVER_PSGD = "_over_psgd"  # of an error: divided by that of the parallel SGD run alike in all else
METRICS = {  # what a table may show -> how it is headed
    **{name: words for facts in PROBLEMS.values() for name, words in facts.metrics.items()},
    **{FINAL + name if name == "lr" else name: words for name, words in RECORDED.items()},
    "error_workers_over_psgd": "1/n sum of |x_i - x*|^2 over parallel SGD's",
    "error_averaged_over_psgd": "|x_bar - x*|^2 over parallel SGD's",
}


def gives(kind: str, metric: str) -> bool:
    """Whether runs of this kind of problem have this metric, as far as can be known."""
    return (
        metric.removeprefix(FINAL) in RECORDED
        or metric.removesuffix(OVER_PSGD) in PROBLEMS[kind].metrics
        or (kind == "own" and metric.endswith(tuple(_MEASURED)))
    )


def heading(metric: str) -> str:
    """How a table heads a metric: one of `METRICS`, or a score of a problem of a user's own."""
    if metric in METRICS:
        return METRICS[metric]
    for suffix, end in _MEASURED.items():
        if metric.endswith(suffix):
            return metric.removesuffix(suffix) + end
    return metric


@dataclass(frozen=True)
class DatasetFacts:
    """A data set of `expograph.data`.

    Attributes:
        size: training images, by which epochs are counted; None if that is not known yet.
        kind: "images", each with a label, or "scenes", each with boxes around its objects.
        any_size: whether they are photographs, each of a size of its own.
    """

    size: int | None
    kind: Literal["images", "scenes"] = "images"
    any_size: bool = False


DATASETS: dict[str, DatasetFacts] = {
    "fashion_mnist": DatasetFacts(60_000),
    "digits": DatasetFacts(1_438),
    "cifar10": DatasetFacts(50_000),
    "imagenet": DatasetFacts(1_281_167, any_size=True),
    "fashion_scenes": DatasetFacts(4_000, "scenes"),
    "voc": DatasetFacts(16_551, "scenes", any_size=True),
    "coco": DatasetFacts(117_266, "scenes", any_size=True),
}
AUGMENTATIONS = ("none", "crop_flip", "resized_crop_flip")
PARTITIONS = {  # how training images are divided over the workers -> the keys that it needs
    "iid": (),
    "label": (),
    "label_contiguous": (),
    "dirichlet": ("alpha",),
}


@dataclass(frozen=True)
class ModelFacts:
    """A network for labelled images, of `expograph.networks`."""

    batch_norm: bool = False


MODELS: dict[str, ModelFacts] = {
    "linear": ModelFacts(),
    "mlp": ModelFacts(),
    "cnn": ModelFacts(),
    "resnet8_bn": ModelFacts(batch_norm=True),
    "resnet8_gn": ModelFacts(),
    "resnet20": ModelFacts(batch_norm=True),
    "resnet56": ModelFacts(batch_norm=True),
    "resnet50": ModelFacts(batch_norm=True),
    "mobilenet_v2": ModelFacts(batch_norm=True),
    "efficientnet_b0": ModelFacts(batch_norm=True),
}


@dataclass(frozen=True)
class DetectorFacts:
    """A network for scenes, of `expograph.networks.detectors`.

    Attributes:
        any_size: whether it is made for photographs, whose sides it scales, on a ResNet-50.
    """

    any_size: bool


DETECTORS: dict[str, DetectorFacts] = {
    "retinanet_small": DetectorFacts(any_size=False),
    "faster_rcnn_small": DetectorFacts(any_size=False),
    "retinanet_resnet50_fpn": DetectorFacts(any_size=True),
    "faster_rcnn_resnet50_fpn": DetectorFacts(any_size=True),
}


@dataclass(frozen=True)
class EngineFacts:
    """An engine of `expograph.engines`.

    Attributes:
        ranks: what its ranks are: "one" process, or those of an "mpi" or "torch" job.
        exact: whether it can average exactly only.
    """

    ranks: Literal["one", "mpi", "torch"] = "mpi"
    exact: bool = False


ENGINES: dict[str, EngineFacts] = {
    "embedded": EngineFacts(ranks="one"),
    "bluefog": EngineFacts(),
    "mpi": EngineFacts(),
    "torch": EngineFacts(ranks="torch"),
    "horovod": EngineFacts(exact=True),
}
