"""What the command line asks of a framework beside tracing and cutting: train, judge, export.

A framework that joins writes another class of these methods, and adds a branch to
`toolkit_of`; no command knows which one it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from prunus.core.errors import PrunusError

if TYPE_CHECKING:
    from prunus.tasks.settings import DataSettings, TrainSettings

__all__ = ["Toolkit", "TorchToolkit", "toolkit_of"]


class Toolkit(Protocol):
    """The interface; models are those of one framework."""

    def load_data(self, settings: DataSettings) -> Any:
        """Return training and test data, with `train`, `test`, `classes` and `shape`."""
        ...

    def load_weights(self, model: Any, path: Path) -> Any:
        """Return the model with the weights of a file, cut as the file says."""
        ...

    def save_weights(self, model: Any, path: Path) -> None:
        """Write the weights of a whole model."""
        ...

    def train(self, model: Any, data: Any, settings: TrainSettings, **how: Any) -> Any:
        """Train in place; return what came of it."""
        ...

    def evaluate(self, model: Any, evaluation: Any, progress: Any = None) -> float:
        """Return the metric of a model."""
        ...

    def recalibrate(self, model: Any, batches: Iterable[Any]) -> tuple[str, ...]:
        """Estimate the statistics of batch norms anew; return their names."""
        ...

    def export(self, model: Any, example: Any, path: Path) -> Any:
        """Write the model in the format that the ending of `path` stands for, and check it."""
        ...

    def figures(
        self, models: Sequence[Any], example: Any, *, costs: Any, evaluation: Any, progress: Any
    ) -> Sequence[Any]:
        """Return size, cost, latency and metric of each model."""
        ...


class TorchToolkit:
    """PyTorch's; nothing is imported before it is used."""

    def load_data(self, settings: DataSettings) -> Any:
        """Return loaders of tensors."""
        from prunus.tasks.torch.data import load_data

        return load_data(settings)

    def load_weights(self, model: Any, path: Path) -> Any:
        """Return the model with the weights of a safetensors or PyTorch file."""
        from prunus.tasks.torch.weights import load_weights

        return load_weights(model, path)

    def save_weights(self, model: Any, path: Path) -> None:
        """Write a safetensors file."""
        from prunus.tasks.torch.weights import save_weights

        save_weights(model, path)

    def train(self, model: Any, data: Any, settings: TrainSettings, **how: Any) -> Any:
        """Train a classifier in place."""
        from prunus.tasks.torch.training import train

        return train(model, data, settings, **how)

    def evaluate(self, model: Any, evaluation: Any, progress: Any = None) -> float:
        """Return the metric of a model."""
        from prunus.tasks.torch.evaluate import evaluate

        return evaluate(model, evaluation, progress=progress)

    def recalibrate(self, model: Any, batches: Iterable[Any]) -> tuple[str, ...]:
        """Estimate the statistics of batch norms anew."""
        from prunus.backends.torch.recalibrate import recalibrate

        return recalibrate(model, batches)

    def export(self, model: Any, example: Any, path: Path) -> Any:
        """Write ONNX (.onnx) or an archive of torch.export (.pt2)."""
        from prunus.backends.torch import export

        writers: Mapping[str, Callable[..., Any]] = {
            ".onnx": export.export_onnx,
            ".pt2": export.export_archive,
        }
        if path.suffix not in writers:
            raise PrunusError(
                f"the ending of {str(path)!r} says no format",
                fix="end it with .onnx, or with .pt2 for an archive of torch.export",
            )
        return writers[path.suffix](model, example, path)

    def figures(
        self, models: Sequence[Any], example: Any, *, costs: Any, evaluation: Any, progress: Any
    ) -> Sequence[Any]:
        """Return size, cost, latency and metric of each model."""
        from prunus.tasks.torch.figures import figures

        found: Sequence[Any] = figures(
            models, example, costs=costs, evaluation=evaluation, progress=progress
        )
        return found


def toolkit_of(model: object) -> Toolkit:
    """Return the toolkit of the framework that `model` belongs to."""
    modules = {cls.__module__.split(".")[0] for cls in type(model).__mro__}
    if "torch" in modules:
        return TorchToolkit()
    raise PrunusError(
        f"prunus cannot train or export a {type(model).__module__}.{type(model).__name__}",
        fix="name a function or class that gives a torch.nn.Module",
    )
