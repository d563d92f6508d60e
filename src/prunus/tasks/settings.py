"""What a YAML file says of a model, its data, its metric and its training.

Each field has a description, from which `prunus init` writes a commented file. Nothing
here knows a framework: another backend reads the same file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = [
    "AugmentSettings",
    "DataSettings",
    "DistillationSettings",
    "MetricSettings",
    "ModelSettings",
    "TrainSettings",
]

Length = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]

KINDS = ("folder", "csv", "datasets", "digits")


class _Section(BaseModel):
    """One part of the file: a key that nobody reads is a mistake, so it is refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )


class ModelSettings(_Section):
    """The network, and what it is traced on."""

    name: str = Field(
        min_length=1,
        description="Which network: timm:NAME, torchvision:NAME, or MODULE:FACTORY for a function "
        "or class of your own.",
    )
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="What the factory is called with, such as {num_classes: 10}.",
    )
    weights: Path | None = Field(
        default=None,
        description="Trained weights: a safetensors file, a file of prunus.save, or a PyTorch file "
        "of plain tensors. null starts from the factory's own.",
    )
    shape: tuple[Length, ...] | None = Field(
        default=None,
        description="Shape of the input the network is traced on, batch first, such as "
        "[1, 3, 224, 224]. null takes one image of the data.",
    )
    within: str | None = Field(
        default=None, description="Cut this sub-module only, where the whole cannot be traced."
    )


class AugmentSettings(_Section):
    """How training images are varied; test images never are."""

    crop: Literal["none", "shift", "resized"] = Field(
        default="none",
        description="none; shift: move the image by up to `padding` pixels; resized: take a random "
        "part of at least `smallest` of the area and enlarge it.",
    )
    padding: int = Field(default=4, ge=0, description="For shift: by how many pixels at most.")
    smallest: float = Field(
        default=0.25, gt=0, le=1, description="For resized: the smallest share of the area."
    )
    flip: bool = Field(default=False, description="Mirror every other image, left to right.")


class DataSettings(_Section):
    """Labelled images for training and for testing."""

    kind: str = Field(
        default="folder",
        description="folder: images in one folder a class; csv: a list with the columns path and "
        "label; datasets: a directory of Hugging Face's save_to_disk; digits: scikit-learn's "
        "scanned digits; or MODULE:FUNCTION that returns (train, test), each a sequence of "
        "(image, label).",
    )
    train: Path | None = Field(
        default=None,
        description="The training images: a folder, a CSV file, or a datasets directory.",
    )
    test: Path | None = Field(
        default=None,
        description="The test images, of the same kind. null keeps a share of the others.",
    )
    test_share: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="Without `test`: the share of each class kept for testing.",
    )
    split_seed: int = Field(default=0, ge=0, description="Which images those are.")
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="For MODULE:FUNCTION: what it is called with."
    )
    image_column: str | None = Field(
        default=None, description="For csv and datasets: the column of images. null finds it."
    )
    label_column: str | None = Field(
        default=None, description="For csv and datasets: the column of labels. null finds it."
    )
    image_size: Length | tuple[Length, Length] | None = Field(
        default=None,
        description="Bring images to this size: one number, or [height, width]. null leaves them.",
    )
    resize: Literal["crop", "stretch"] = Field(
        default="crop",
        description="crop keeps the proportions and cuts the middle out; stretch does not.",
    )
    crop_share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="For crop: how much of the shorter side is kept; ImageNet models like 0.875.",
    )
    channels: Literal[1, 3] = Field(default=3, description="1 for grey images, 3 for colour.")
    mean: tuple[float, ...] | None = Field(
        default=None,
        description="Taken off each channel, whose brightness is from 0 to 1. ImageNet: "
        "[0.485, 0.456, 0.406].",
    )
    std: tuple[Annotated[float, Field(gt=0)], ...] | None = Field(
        default=None,
        description="Divides each channel after that. ImageNet: [0.229, 0.224, 0.225].",
    )
    augment: AugmentSettings = Field(
        default=AugmentSettings(), description="How training images are varied."
    )
    batch_size: int = Field(default=32, ge=1, description="Images in a batch.")
    workers: int = Field(
        default=2, ge=0, description="Threads that read images ahead; 0 reads when they are needed."
    )

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if ":" not in kind and kind not in KINDS:
            raise ValueError(
                f"there is no kind of data {kind!r}: use {', '.join(KINDS)} or MODULE:FUNCTION"
            )
        return kind

    @model_validator(mode="after")
    def _fits(self) -> DataSettings:
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if numbers is not None and len(numbers) not in (1, self.channels):
                raise ValueError(
                    f"{name} has {len(numbers)} numbers, and the images have {self.channels} "
                    "channels: give one number, or one a channel"
                )
        if self.kind in ("folder", "csv", "datasets") and self.train is None:
            raise ValueError(f"data of kind {self.kind!r} needs `train`, the path of its images")
        return self


class MetricSettings(_Section):
    """What a model is judged by."""

    name: str = Field(
        default="top1",
        min_length=1,
        description="top1, top5, or MODULE:OBJECT: a function (output, batch) -> one score a "
        "sample, or an object (or class) with update, compute and reset.",
    )
    higher_is_better: bool = Field(default=True, description="False where the metric is a loss.")
    key: str | None = Field(
        default=None, description="Which entry counts, where the object computes several."
    )


class DistillationSettings(_Section):
    """Learn from the answers of the unpruned model, too."""

    weight: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="The teacher's share of the loss; the labels have the rest.",
    )
    temperature: float = Field(
        default=4.0,
        gt=0,
        description="How much the teacher's second thoughts count: 1 is as they are.",
    )


class TrainSettings(_Section):
    """How a classifier is trained, before the cut and after it."""

    epochs: int = Field(default=20, ge=1, description="Rounds over the training images.")
    optimizer: Literal["sgd", "adamw"] = Field(
        default="adamw", description="sgd (with Nesterov's momentum) or adamw."
    )
    learning_rate: float = Field(
        default=0.001, gt=0, description="The highest rate. adamw likes 0.001, sgd 0.05."
    )
    schedule: Literal["cosine", "step", "constant"] = Field(
        default="cosine",
        description="How the rate falls: cosine to nothing, in steps, or not at all.",
    )
    step_epochs: tuple[Length, ...] = Field(
        default=(),
        description="For step: after which epochs it falls. [] is after 1/2 and 3/4 of them.",
    )
    step_factor: float = Field(
        default=0.1, gt=0, lt=1, description="For step: what is left of the rate each time."
    )
    warmup_epochs: float = Field(
        default=0.0,
        ge=0,
        description="Epochs, or a part of one, in which the rate rises from nothing.",
    )
    weight_decay: float = Field(
        default=0.01,
        ge=0,
        description="Pull of the weights to zero; norms and biases are left out.",
    )
    momentum: Share = Field(default=0.9, description="For sgd.")
    label_smoothing: Share = Field(
        default=0.0, description="The share of the target given to all classes."
    )
    ema_decay: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Test and keep a running mean of the weights, such as 0.999.",
    )
    clip: float | None = Field(
        default=None,
        gt=0,
        description="The largest norm of the gradients; longer ones are shortened.",
    )
    mixed_precision: bool | Literal["auto"] = Field(
        default="auto", description="Compute in half precision where that is safe; auto: on a GPU."
    )
    device: str = Field(
        default="auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="auto, cpu, cuda or cuda:1.",
    )
    seed: int | None = Field(
        default=0,
        ge=0,
        lt=2**32,
        description="The same seed, the same training. null: another one each time.",
    )
    patience: int | None = Field(
        default=None, ge=1, description="Stop after so many epochs without a better metric."
    )
    keep: Literal["best", "last"] = Field(
        default="best", description="The weights of the best epoch, or of the last one."
    )
    distillation: DistillationSettings | None = Field(
        default=None, description="Learn from the unpruned model, too; read by finetune."
    )
    checkpoint_every: int | None = Field(
        default=None,
        ge=1,
        description="Steps between checkpoints; there is one after each epoch anyway.",
    )
    log_every: int = Field(default=10, ge=1, description="Steps between two lines of the log.")
    tensorboard: bool = Field(
        default=False, description="Write TensorBoard logs as well (pip install 'prunus[train]')."
    )
    folder: Path = Field(
        default=Path("runs/train"), description="Where the checkpoint and the logs are kept."
    )

    @model_validator(mode="after")
    def _fits(self) -> TrainSettings:
        if self.warmup_epochs >= self.epochs:
            raise ValueError(
                f"the warm-up of {self.warmup_epochs:g} epochs is as long as the training of "
                f"{self.epochs}"
            )
        if any(epoch >= self.epochs for epoch in self.step_epochs):
            raise ValueError(f"step_epochs must lie within the {self.epochs} epochs")
        return self
