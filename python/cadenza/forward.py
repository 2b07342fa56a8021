"""Forward passes and the log-probabilities of texts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Optional

from . import _core, arrays
from ._abi import ffi
from .cache import Cache, DynamicCache
from .errors import UsageError
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
    lib, runtime = _core.library(), model._runtime
    document: dict[str, Any] = {"prompt_ids": rows, "kwargs": {"max_new_tokens": 1, "max_length": None, "min_length": None, "last_only": last_only}}
    if mask is not None:
        document["attention_mask"] = mask
    request = _core.new_struct("cdz_request", model=model._pointer, pipeline=_pipeline(runtime), keep_cache=True)
    text = ffi.new("char[]", json.dumps(document).encode())
    request.json = text
    if past is not None:
        request.past = past.pointer
    identity, err = ffi.new("uint64_t *"), _core.new_error()
    _core.check(lib.cdz_submit(runtime.pointer, request, identity, err), err)
    return int(identity[0])


def collect(model: "Model", identity: int) -> _core.Result:
    """The result of such a request."""
    err = _core.new_error()
    try:
        status, pointer = model._wait(identity, err)
    except BaseException:
        model._abandon(identity)
        raise
    result = _core.Result(pointer) if pointer else None
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
        cache._fill(result, rows, len(rows[0]), int(model.config.__dict__.get("num_hidden_layers", 0) or 0))
    return CausalLMOutputWithPast(logits=arrays.like(logits, kind, device), past_key_values=cache)


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
