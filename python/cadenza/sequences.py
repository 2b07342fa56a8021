"""Sequences of tokens for decode loops in Python: fork, truncate, append, and one pass for many of them.

    root = model.sequence(ids)
    logits, = model.forward([root])                  # (vocabulary,) of the next token
    left, right = root.fork(), root.fork()
    left.append(best); right.append(second)
    rows = model.forward([left, right])              # one pass; what both begin with was read once
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from . import _core, arrays
from .errors import UsageError

if TYPE_CHECKING:
    from .model import Model

__all__ = ["Sequence"]


class Sequence:
    """Tokens, and how many of them a KV state holds. A fork shares the state; nothing is copied."""

    def __init__(self, model: "Model", ids: Any) -> None:
        rows = arrays.rows(ids, "ids")
        if len(rows) != 1 or not rows[0]:
            raise UsageError(f"a sequence is one row of at least one id, found {len(rows)} rows")
        self.model = model
        self.ids: list[int] = rows[0]
        self._state: Optional[_core.Result] = None

    def fork(self) -> "Sequence":
        """Another sequence of the same tokens."""
        made = Sequence(self.model, self.ids)
        made._state = self._state
        return made

    def append(self, ids: Any) -> "Sequence":
        """More tokens: an id, or ids."""
        if hasattr(ids, "tolist"):
            ids = ids.tolist()
        self.ids.extend([ids] if isinstance(ids, int) else [int(i) for i in ids])
        return self

    def truncate(self, length: int) -> "Sequence":
        """Drops the tokens from `length` on."""
        if not 1 <= length <= len(self.ids):
            raise UsageError(f"truncate({length}): the sequence has {len(self.ids)} tokens, and one must stay")
        del self.ids[length:]
        return self

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<sequence of {len(self.ids)} tokens>"


def forward(model: "Model", sequences: Any, positions: str = "last") -> list[Any]:
    """Reads what the states of these sequences lack, in one pass for all of them.

    positions: "last": a list of (vocabulary,) float32 arrays, the logits of the next token of each. "all": of
    (positions read, vocabulary); the last is the next token's. "none": an empty list. The arrays are the result's own memory.
    """
    from .forward import collect, submit

    model._check()
    if positions not in ("last", "all", "none"):
        raise UsageError(f'positions: expected "last", "all" or "none", found {positions!r}')
    given = [sequences] if isinstance(sequences, Sequence) else list(sequences)
    for sequence in given:
        if sequence.model is not model:
            raise UsageError("a sequence of another model")
    orders: list[int] = []
    try:
        for sequence in given:
            orders.append(submit(model, [sequence.ids], None, sequence._state, positions != "all"))
        results = []
        while orders:
            results.append(collect(model, orders[0]))
            orders.pop(0)
    except BaseException:
        for identity in orders:
            model._abandon(identity)
        raise
    made = []
    for sequence, result in zip(given, results):
        sequence._state = result
        tensors = result.tensors()
        if positions == "last":
            made.append(result.array(tensors["results/logits"])[0])
        elif positions == "all":
            made.append(result.array(tensors["results/logits_0"]))
    return made
