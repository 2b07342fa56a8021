"""KV caches: what past_key_values is.

A cache here is a state that the engine keeps with a result. It is never written into: what continues it makes a new state that
shares the common part, so copies cost nothing, and any number of continuations may begin at one cache.
"""

from __future__ import annotations

from typing import Any, Optional

from . import _core
from .errors import UsageError

__all__ = ["Cache", "DynamicCache", "StaticCache", "QuantizedCache", "EncoderDecoderCache"]


class Cache:
    """The keys and values of rows of tokens.

    Give it to generate() or to a forward pass as past_key_values, with all ids so far, or with the new ids alone and the
    attention_mask of everything. An empty one is filled. The memory is freed with the object and its copies.
    """

    is_compileable = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._result: Optional[_core.Result] = None
        self._ids: list[list[int]] = []
        self._length = 0
        self._mask: Optional[list[list[int]]] = None  # of its tokens, where forward passes filled it
        self.is_sliding: list[bool] = []  # of each layer: whether it attends to a window

    def _fill(self, result: Optional[_core.Result], ids: list[list[int]], length: int, is_sliding: list[bool]) -> None:
        self._result, self._ids, self._length, self.is_sliding = result, ids, length, is_sliding
        self._mask = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._ids)} rows, {self._length} tokens each>"

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens in it: those of the prompt and the new ones but the last, which no pass has read."""
        return self._length

    def get_max_cache_shape(self, layer_idx: int = 0) -> int:
        return -1

    def crop(self, max_length: int) -> None:
        """Keeps max_length tokens; below zero, drops so many."""
        keep = max_length if max_length >= 0 else max(0, self._length + max_length)
        if keep < self._length:
            self._length = keep
            self._ids = [row[:keep] for row in self._ids]

    def reset(self) -> None:
        """Empties it."""
        self._result, self._ids, self._length, self._mask = None, [], 0, None

    def reorder_cache(self, beam_idx: Any) -> None:
        """Row i becomes row beam_idx[i]. Only ids move: rows that a state does not hold are computed again."""
        order = beam_idx.tolist() if hasattr(beam_idx, "tolist") else list(beam_idx)
        self._ids = [list(self._ids[i]) for i in order]
        self._mask = None if self._mask is None else [self._mask[i] for i in order]

    batch_select_indices = reorder_cache

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.reorder_cache([i for i in range(len(self._ids)) for _ in range(repeats)])

    def __len__(self) -> int:
        return len(self.is_sliding)

    def __bool__(self) -> bool:
        return True

    def __copy__(self) -> "Cache":
        made = type(self)()
        made._fill(self._result, [list(row) for row in self._ids], self._length, list(self.is_sliding))
        made._mask = self._mask
        return made

    def __deepcopy__(self, memo: Any) -> "Cache":
        return self.__copy__()

    def __reduce__(self) -> Any:
        raise UsageError("a KV cache lives in its engine: it cannot be pickled")

    @property
    def is_initialized(self) -> bool:
        return self._result is not None

    def to_legacy_cache(self) -> Any:
        raise AttributeError("to_legacy_cache is gone in transformers 5; crop(), get_seq_length() and copy.deepcopy work")


class DynamicCache(Cache):
    """The usual cache."""


class StaticCache(Cache):
    """The same: its size is never fixed here."""


class QuantizedCache(Cache):
    """The same: how keys and values are kept says from_pretrained(kv_cache=)."""


class EncoderDecoderCache(Cache):
    """The same, of a model with an encoder."""
