"""Forward passes and the log-probabilities of texts."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any, Iterator, Optional

from . import _core, arrays
from ._abi import ffi
from .cache import Cache, DynamicCache
from .errors import UnsupportedError, UsageError
from .outputs import CausalLMOutputWithPast

if TYPE_CHECKING:
    from .model import Model

_LOOP = b"[pipeline]\nstrategy = org.cadenza.forward\n"


def _pipeline(runtime: _core.Runtime) -> Any:
    """The runtime's pipeline of forward passes."""
    with _core._lock:
        if runtime.forward is None:
            out, err = ffi.new("cdz_pipeline **"), _core.new_error()
            status = _core.library().cdz_pipeline_parse(runtime.pointer, _LOOP, len(_LOOP), b"forward", out, err)
            _core.check(status, err)
            runtime.forward = out[0]
        return runtime.forward


def submit(model: "Model", rows: list[list[int]], mask: Optional[list[list[int]]], past: Optional[_core.Result],
           last_only: bool) -> int:  # fmt: skip
    """Orders a pass over what `past` lacks of the rows; the request's id. KeyboardInterrupt may leave it to the engine."""
    document: dict[str, Any] = {"prompt_ids": rows, "kwargs": {"max_new_tokens": 1, "max_length": None, "min_length": None, "last_only": last_only}}
    if mask is not None:
        document["attention_mask"] = mask
    request = _core.new_struct("cdz_request", pipeline=_pipeline(model._runtime), keep_cache=True)
    text = ffi.new("char[]", json.dumps(document).encode())
    request.json = text
    if past is not None:
        request.past = past.pointer
    identity = ffi.new("uint64_t *")
    model._submit(request, identity)
    return int(identity[0])


def collect(model: "Model", identity: int) -> _core.Result:
    """The result of such a request."""
    err = _core.new_error()
    try:
        status, result = model._wait(identity, err)
    except BaseException:
        model._abandon(identity)
        raise
    _core.check(status, err)
    assert result is not None
    return result


def forward_ids(model: "Model", input_ids: Any, attention_mask: Any, past: Optional[Cache], use_cache: bool,
                logits_to_keep: int) -> CausalLMOutputWithPast:  # fmt: skip
    """Model.__call__."""
    import numpy

    model._check()
    kind, device = arrays.kind_of(input_ids), arrays.device_of(input_ids)
    new = arrays.rows(input_ids, "input_ids")
    if past is not None and not isinstance(past, Cache):
        raise UsageError(f"past_key_values: expected a cadenza.Cache, found {type(past).__name__}")
    known = past._length if past is not None else 0
    rows = new
    if past is not None and known:
        if len(new) != len(past._ids):
            raise UsageError(f"input_ids: {len(new)} rows, the cache has {len(past._ids)}")
        if len(new[0]) <= known or any(row[:known] != old[:known] for row, old in zip(new, past._ids)):
            rows = [old[:known] + row for row, old in zip(new, past._ids)]
    n_new = len(new[0]) if rows is not new else len(rows[0]) - known
    mask = arrays.rows(attention_mask, "attention_mask", mask=True) if attention_mask is not None else None
    if mask is None:
        mask = _whole(rows, past if known else None, known)
    if mask is not None and len(mask[0]) != len(rows[0]):
        raise UsageError(f"attention_mask: {len(mask[0])} columns, there are {len(rows[0])} tokens with the cache's")
    last_only = n_new == 1 or logits_to_keep == 1
    result = collect(model, submit(model, rows, mask, past._result if past is not None else None, last_only))
    tensors = result.tensors()
    if last_only:
        logits = result.array(tensors["results/logits"])[:, None, :]
    else:
        logits = numpy.zeros((len(rows), n_new, model._vocab), numpy.float32)
        for r in range(len(rows)):
            got = result.array(tensors[f"results/logits_{r}"])[-n_new:]
            logits[r, n_new - len(got) :] = got
        if logits_to_keep:
            logits = logits[:, -logits_to_keep:]
    cache = past if past is not None else (DynamicCache() if use_cache else None)
    if cache is not None:
        cache._fill(result, rows, len(rows[0]), model._sliding())
        cache._mask = mask
    return CausalLMOutputWithPast(logits=arrays.like(logits, kind, device), past_key_values=cache)


def _whole(rows: list[list[int]], past: Optional[Cache], known: int) -> Optional[list[list[int]]]:
    """The mask of a pass without one: every new token is seen, a pad too. None: the cache is of generate(), which tells pads by their id."""
    if past is None:
        return [[1] * len(row) for row in rows]
    if past._mask is None or len(past._mask) != len(rows):
        return None
    return [old[:known] + [1] * (len(row) - known) for old, row in zip(past._mask, rows)]


def score_ids(model: "Model", ids: list[int], source: Optional[list[int]] = None) -> Any:
    """(tokens,) float32: the log-probability of each id after those before it; the first is nan."""
    import numpy

    model._check()
    out, err = numpy.empty(len(ids), numpy.float32), _core.new_error()
    if not ids:
        return out
    given = ffi.new("int32_t[]", ids)
    read = ffi.new("int32_t[]", source) if source else ffi.NULL
    status = _core.library().cdz_score(
        model._runtime.pointer, model._pointer, read, len(source or ()), given, len(ids), ffi.from_buffer("float[]", out), err
    )
    _core.check(status, err)
    return out


class Score:
    """How probable a text is: ids, their log-probabilities (nan for the first), and the likeliest in each place.

    logprobs: (tokens,) float32. top_ids, top_logprobs: (tokens, top), the likeliest first; -1 and nan for the first token. total: the
    sum; perplexity: exp(-mean).
    """

    def __init__(self, result: _core.Result, top: int) -> None:
        import numpy

        lib, n = _core.library(), ffi.new("uint32_t *")
        at = lib.cdz_result_prompt_logprobs(result.pointer, 0, n)
        self.ids = result.sequence(0)
        self.logprobs = numpy.frombuffer(ffi.buffer(at, 4 * n[0]), numpy.float32).copy()
        self.top_ids = numpy.full((len(self.ids), top), -1, numpy.int64)
        self.top_logprobs = numpy.full((len(self.ids), top), numpy.nan, numpy.float32)
        ids, logprobs = ffi.new("const int32_t **"), ffi.new("const float **")
        for place in range(len(self.ids) if top else 0):
            found = min(int(lib.cdz_result_prompt_top_logprobs(result.pointer, 0, place, ids, logprobs)), top)
            if found:
                self.top_ids[place, :found] = ffi.unpack(ids[0], found)
                self.top_logprobs[place, :found] = ffi.unpack(logprobs[0], found)

    @property
    def total(self) -> float:
        return float(self.logprobs[1:].astype("float64").sum())

    @property
    def perplexity(self) -> float:
        import math

        n = len(self.ids) - 1
        return math.exp(-self.total / n) if n > 0 else math.nan

    def __repr__(self) -> str:
        return f"<score of {len(self.ids)} tokens: perplexity {self.perplexity:.2f}>"


def score_rows(model: "Model", rows: list[list[int]], top: int = 0, together: int = 64) -> Iterator[Score]:
    """A Score of each row, in order. So many rows are with the engine at once; what they begin with alike is read once, and no logits
    are kept but the `top` best."""
    model._check()
    waiting: deque[int] = deque()
    given = iter(rows)
    try:
        for _ in range(len(rows)):
            while len(waiting) < together:
                row = next(given, None)
                if row is None:
                    break
                waiting.append(_submit_score(model, row, top))
            yield Score(collect(model, waiting[0]), top)
            waiting.popleft()
    finally:
        for identity in waiting:
            model._abandon(identity)


def _submit_score(model: "Model", row: list[int], top: int) -> int:
    document: dict[str, Any] = {"mode": "score", "prompt_ids": [row]}
    if top:
        document["kwargs"] = {"output_scores_top": top}
    request = _core.new_struct("cdz_request")
    text = ffi.new("char[]", json.dumps(document).encode())
    request.json = text
    identity = ffi.new("uint64_t *")
    model._submit(request, identity)
    return int(identity[0])


def score(texts: Any, model: Any, tokenizer: Any = None, top: int = 0) -> list[Score]:
    """How probable texts are: a :class:`Score` of each.

    texts: texts, or rows of ids, of any lengths; model: a model, or what from_pretrained takes. top: keep the so many likeliest tokens
    of each place, so memory does not grow with the vocabulary. ValueError: no texts, or an id outside the vocabulary.
    """
    from .model import Model
    from .tokenizer import Tokenizer

    opened = model if isinstance(model, Model) else Model.from_pretrained(model)
    if isinstance(texts, str) or not isinstance(texts, (list, tuple)):
        raise UsageError(f"texts: expected a list of texts or of rows of ids, found {type(texts).__name__}")
    if opened._has_encoder:
        raise UnsupportedError("score: a model with an encoder scores what follows a source: Model.score, or cadenza score --context")
    if isinstance(top, bool) or not isinstance(top, int) or not 0 <= top <= 1000:
        raise UsageError(f"top: expected 0 to 1000, found {top!r}")
    rows = []
    for number, text in enumerate(texts):
        if isinstance(text, str):
            tokenizer = tokenizer or Tokenizer(opened)
            rows.append(list(tokenizer.encode(text)))
        else:
            rows.append(arrays.rows(text, f"texts[{number}]")[0])
        for item in rows[-1]:
            if not 0 <= item < opened._vocab:
                raise UsageError(f"texts[{number}]: id {item} is not in the vocabulary of {opened._vocab} tokens")
        if not rows[-1]:
            raise UsageError(f"texts[{number}] is empty")
    return list(score_rows(opened, rows, top))
