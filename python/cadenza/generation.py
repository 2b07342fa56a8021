"""transformers.generation by the same name: what the package has of it, for imports that name it in full, or one of its modules."""

from __future__ import annotations

import sys
import types
from typing import Any

import cadenza

_PARTS = ("builtin", "biases", "config", "cuts", "manager", "outputs", "processors", "streamers", "watermarks")
__path__: list[str] = []  # a package without files: import statements ask __getattr__ first
__all__ = sorted(name for name, module in cadenza._NAMES.items() if module in _PARTS)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        cadenza._refuse(name, __name__)
    return getattr(cadenza, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _submodules() -> None:
    """Every module of transformers.generation has all the names here."""
    for name in (
        "configuration_utils", "continuous_batching", "continuous_batching.continuous_api", "continuous_batching.requests",
        "continuous_batching.scheduler", "logits_process", "stopping_criteria", "streamers", "utils", "watermarking",
    ):  # fmt: skip
        made: Any = types.ModuleType(f"{__name__}.{name}", __doc__)
        made.__path__, made.__all__, made.__getattr__ = [], __all__, __getattr__
        sys.modules[made.__name__] = made
        parent, _, own = made.__name__.rpartition(".")
        setattr(sys.modules[parent], own, made)


_submodules()
