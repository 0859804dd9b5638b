"""The settings of each kind of problem, `[run.problem]`, as frozen types that check themselves."""

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from expograph import own
from expograph.config.facts import DATASETS, DETECTORS, MODELS, PARTITIONS, DatasetFacts
from expograph.names import known


class Strict(BaseModel):
    """Frozen, no unknown keys, no silent conversions ("1e-3" is not a number, true is not 1)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _Synthetic(Strict):
    """What the two synthetic problems share."""

    dim: int = Field(10, ge=1, le=10_000, description="at most what fits in a Hessian")
    heterogeneity: float = Field(0.0, ge=0, description="std of each worker's true weights")
    shared_data: bool = Field(False, description="every worker holds the same samples")
    noise: float = Field(1.0, ge=0, description="std of the gradient noise, per coordinate")

    @model_validator(mode="after")
    def _shared_is_homogeneous(self) -> "_Synthetic":
        if self.shared_data and self.heterogeneity:
            raise ValueError("shared_data leaves no room for heterogeneity: set one of them")
        return self


class Logistic(_Synthetic):
    """Logistic regression on synthetic data, full local gradients plus Gaussian noise.

    The paper's own settings were not available to us; these follow published code of the same
    group (d = 10, N(0, I) features, labels drawn from the logistic model).
    """

    kind: Literal["logistic"]
    samples: int = Field(100, ge=1, le=1_000_000, description="per worker")
    l2: float = Field(0.01, gt=0, description="makes the minimiser unique")


class LeastSquares(_Synthetic):
    """Linear least squares on synthetic data, full local gradients plus Gaussian noise.

    Attributes:
        label_noise: std of what is added to each label.
    """

    kind: Literal["least_squares"]
    samples: int = Field(50, ge=1, le=1_000_000, description="per worker")
    label_noise: float = Field(0.1, ge=0)

    @model_validator(mode="after")
    def _unique_minimiser(self) -> "LeastSquares":
        if self.samples < self.dim:
            raise ValueError("samples must be at least dim, or there is no unique minimiser")
        return self


class _Sharded(Strict):
    """What the problems on real images share: the data divided over the workers.

    Attributes:
        dataset: the images, found on disk or fetched.
        model: the network, all workers starting from the same.
        partition: how the training images are divided: at random, by label, or with class
            proportions from a Dirichlet distribution.
    """

    dataset: str
    model: str
    partition: str = "iid"
    alpha: float | None = Field(None, gt=0, description="of the Dirichlet partition")
    batch_size: int = Field(32, ge=1, le=1_000_000, description="samples a worker and gradient")
    weight_decay: float = Field(0.0, ge=0, description="on matrices only, not on biases or norms")

    @field_validator("partition")
    @classmethod
    def _partition(cls, value: str) -> str:
        return known("partition", value, PARTITIONS)

    @model_validator(mode="after")
    def _alpha_with_dirichlet(self) -> "_Sharded":
        if ("alpha" in PARTITIONS[self.partition]) != (self.alpha is not None):
            raise ValueError("alpha goes with partition = 'dirichlet', and only with it")
        return self


class Classification(_Sharded):
    """Images, divided over the workers; cross-entropy; mini-batches without replacement.

    Attributes:
        augment: what is done to each training image at random.
    """

    kind: Literal["classification"]
    accumulation: int = Field(1, ge=1, le=1_000_000, description="gradients averaged a step")
    augment: Literal["none", "crop_flip", "resized_crop_flip"] = "none"
    image_size: int | None = Field(
        None, ge=32, le=4096, description="side, for data sets of any size: 224"
    )
    held_out: int = Field(
        0, ge=0, description="training images kept out of training, evaluated for the test images"
    )

    @field_validator("dataset")
    @classmethod
    def _dataset(cls, value: str) -> str:
        if own.is_own(value):  # what it holds is known once it is imported
            DATASETS.setdefault(value := own.canonical(value), DatasetFacts(None))
            return value
        labelled = [name for name, facts in DATASETS.items() if facts.kind == "images"]
        return known("dataset", value, labelled)

    @field_validator("model")
    @classmethod
    def _model(cls, value: str) -> str:
        return known("model", value, MODELS)

    @model_validator(mode="after")
    def _fitting_images(self) -> "Classification":
        if MODELS[self.model].batch_norm and self.batch_size < 2:
            raise ValueError("batch norm needs a batch_size of at least 2")
        any_size = DATASETS[self.dataset].any_size
        fitting = "resized_crop_flip" if any_size else "crop_flip"
        if self.augment not in ("none", fitting):
            raise ValueError(f"augment for {self.dataset} is 'none' or {fitting!r}")
        size = DATASETS[self.dataset].size
        if size is not None and self.held_out >= size:
            raise ValueError(f"held_out must be below the {size} training images of {self.dataset}")
        if self.image_size and not any_size:
            raise ValueError(f"image_size: the images of {self.dataset} have a size of their own")
        return self


class Detection(_Sharded):
    """Boxes around objects; the sum of a detector's losses."""

    kind: Literal["detection"]
    flip: bool = Field(False, description="mirror each training image with probability 1/2")
    backbone_weights: str | None = Field(None, description="a state_dict of torchvision's resnet50")
    min_size: int = Field(800, ge=32, le=10_000, description="pixels of an image's shorter side")
    max_size: int = Field(1333, ge=32, le=10_000, description="most pixels of its longer side")

    @field_validator("dataset")
    @classmethod
    def _dataset(cls, value: str) -> str:
        scenes = [name for name, facts in DATASETS.items() if facts.kind == "scenes"]
        return known("dataset", value, scenes)

    @field_validator("model")
    @classmethod
    def _model(cls, value: str) -> str:
        return known("model", value, DETECTORS)

    @model_validator(mode="after")
    def _fitting_model(self) -> "Detection":
        any_size = DETECTORS[self.model].any_size
        if any_size != DATASETS[self.dataset].any_size:
            raise ValueError(f"model: {self.model} is not made for the images of {self.dataset}")
        theirs = ("backbone_weights", "min_size", "max_size")
        fields = Detection.model_fields
        if not any_size and any(getattr(self, name) != fields[name].default for name in theirs):
            raise ValueError(
                "backbone_weights, min_size and max_size are for the ResNet-50 detectors"
            )
        if self.min_size > self.max_size:
            raise ValueError("min_size must not be above max_size")
        return self


class Own(Strict):
    """A problem of the user's own: a function that returns `expograph.Supervised`."""

    kind: Literal["own"]
    of: str = Field(description="module:function, or module:function(parameter=value)")

    @field_validator("of")
    @classmethod
    def _of(cls, value: str) -> str:
        if not own.is_own(value):
            raise ValueError("expected 'module:function'")
        return own.canonical(value)


Settings = Logistic | LeastSquares | Classification | Detection | Own
Problem = Annotated[Settings, Field(discriminator="kind")]
KINDS: dict[str, type[Settings]] = {
    get_args(model.model_fields["kind"].annotation)[0]: model for model in get_args(Settings)
}
