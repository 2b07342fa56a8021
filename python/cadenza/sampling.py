"""One token from a row of logits, and the seed of what follows."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Optional

from . import _core
from ._abi import ffi
from .arrays import floats
from .errors import UsageError

__all__ = ["Generator", "sample", "set_seed"]


class Generator:
    """torch's random stream of a seed, on a CPU. Use one from one thread at a time."""

    def __init__(self, seed: int) -> None:
        out, err = ffi.new("cdz_generator **"), _core.new_error()
        lib = _core.library()
        _core.check(lib.cdz_generator_open(seed % 2**64, out, err), err)
        self.pointer = out[0]
        _core.on_delete(self, lib.cdz_generator_free, self.pointer)


_seeds = threading.local()
_seed: Optional[int] = None
_drawn = 0
_lock = threading.Lock()


def set_seed(seed: int, deterministic: bool = False) -> None:
    """Seeds Python's, NumPy's and torch's generators where they are imported, and the next calls of this package: the first
    one draws as transformers does after torch.manual_seed(seed)."""
    import random

    global _seed, _drawn
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    with _lock:
        _seed, _drawn = seed, 0


def _torch_seed() -> Optional[int]:
    """The seed that torch.manual_seed set if nothing was drawn since, or one drawn from torch's generator, which moves on."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    generator = torch.default_generator
    seed = generator.initial_seed()
    fresh = torch.Generator()
    fresh.manual_seed(seed)
    is_fresh = bool(torch.equal(fresh.get_state(), generator.get_state()))
    drawn = int(torch.randint(0, 2**62, (1,)).item())
    return int(seed) if is_fresh else drawn


def next_seed() -> Optional[int]:
    """The seed of a request that draws: torch's, else that of set_seed and how many calls drew since; None: the engine's own."""
    global _drawn
    drawn = _torch_seed()
    if drawn is not None:
        return drawn & (2**63 - 1)
    with _lock:
        if _seed is None:
            return None
        _drawn += 1
        return _seed if _drawn == 1 else (_seed * 0x9E3779B97F4A7C15 + _drawn) % 2**63


def sample(
    logits: Any,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    *,
    generator: Optional[Generator] = None,
    seed: Optional[int] = None,
) -> Any:
    """Draws a token from logits, (vocabulary,) or (rows, vocabulary), of any kind: an int, or a list of ints.

    temperature 0 takes the first of the greatest; top_k 0 and top_p 1 keep all. The logits are not changed. The tokens are those
    of transformers' TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, softmax and torch.multinomial for one row.
    ValueError: the logits hold nan or inf, or nothing is left to draw.
    """
    array = floats(logits, "logits")
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise UsageError(f"logits: expected (vocabulary,) or (rows, vocabulary), found shape {array.shape}")
    if temperature < 0 or top_k < 0:
        raise UsageError(f"temperature {temperature} and top_k {top_k}: expected 0 or more")
    if generator is None and temperature > 0:
        if seed is None:
            seed = next_seed()
        generator = Generator(int.from_bytes(os.urandom(8), "little") if seed is None else seed)
    token, err, lib = ffi.new("int32_t *"), _core.new_error(), _core.library()
    drawn = []
    for row in array.reshape(-1, array.shape[-1]):
        status = lib.cdz_sample(
            generator.pointer if generator is not None else ffi.NULL,
            ffi.cast("const float *", ffi.from_buffer(row)), len(row), temperature, top_k, top_p, token, err,
        )  # fmt: skip
        _core.check(status, err)
        drawn.append(int(token[0]))
    return drawn[0] if array.ndim == 1 else drawn
