"""Double precision for whatever runs, and noise that holds still."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

__all__ = ["in_double", "widened"]

_NOISE = frozenset(
    """rand rand_like randn randn_like bernoulli bernoulli_ uniform uniform_ normal normal_
    normal_functional exponential exponential_""".split()
)
_WIDE = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64),
    **dict.fromkeys((torch.complex32, torch.complex64), torch.complex128),
}


def widened(value: torch.Tensor) -> torch.Tensor:
    """Return `value` in double precision, where it is of a floating or complex type."""
    return value.to(_WIDE.get(value.dtype, value.dtype))


class in_double(TorchDispatchMode):  # noqa: N801  (used as a context manager, like no_grad)
    """Runs everything in double precision, also where code asks for a narrower type."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Widen every floating tensor and every requested type."""
        name, writes = function._schema.name, function._schema.is_mutable
        args, kwargs = tree_map(self._requested, (args, kwargs or {}))
        if not writes:
            args, kwargs = tree_map(self._wide, (args, kwargs))
        else:
            first, *rest = args
            args = (first, *tree_map(self._wide, rest))
        result = function(*args, **kwargs)
        # Noise of another shape is other noise: where channels went, no two runs would agree.
        return result.fill_(0.5) if name.removeprefix("aten::") in _NOISE else result

    @staticmethod
    def _requested(value: Any) -> Any:
        return _WIDE.get(value, value) if isinstance(value, torch.dtype) else value

    @staticmethod
    def _wide(value: Any) -> Any:
        return widened(value) if isinstance(value, torch.Tensor) else value
