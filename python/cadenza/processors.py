"""Python's own logits processors and stopping criteria: transformers' classes, and how the engine calls them.

The library knows three plugins of this module (:data:`PROCESSORS`, :data:`CRITERIA` and :data:`CRITERIA_EOS`). A request with
Python objects borrows a pipeline whose plugins have a number, by which the callbacks find the request's objects. They run on
the engine's thread, on its own stack; what they raise is kept, ends the request, and is raised again in generate().
"""

from __future__ import annotations

import contextvars
import inspect
import math
import threading
import time
import weakref
from typing import Any, Callable, Optional, Sequence

from . import _core
from ._abi import ffi
from .arrays import TORCH, copy_of, is_numpy, is_torch, module_of

__all__ = [
    "LogitsProcessor",
    "LogitsProcessorList",
    "StoppingCriteria",
    "StoppingCriteriaList",
    "MaxLengthCriteria",
    "MaxTimeCriteria",
    "EosTokenCriteria",
]

PROCESSORS = "org.cadenza.python.processors"
CRITERIA = "org.cadenza.python.criteria"
CRITERIA_EOS = "org.cadenza.python.criteria-eos"


class LogitsProcessor:
    """Edits scores: ``__call__(input_ids, scores) -> scores``.

    input_ids: (R, length) int64; scores: (R, vocabulary) float32, which may be edited in place. Both are torch tensors if
    generate() was given tensors, else NumPy arrays; an object may keep them. The answer has the shape of scores: ValueError else.
    """

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __call__")


class LogitsProcessorList(list):  # type: ignore[type-arg]
    """Processors, called in order."""

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        for processor in self:
            scores = processor(input_ids, scores, **_further(processor, kwargs))
        return scores


def _further(processor: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments for a processor that takes more than ids and scores. ValueError: one of them is not given."""
    try:
        names = list(inspect.signature(processor).parameters)[2:]
    except (TypeError, ValueError):
        return {}
    if names and any(name not in kwargs for name in names if name != "kwargs"):
        raise ValueError(f"{_name(processor)} needs {names}: found {sorted(kwargs)}")
    return kwargs if names else {}


class StoppingCriteria:
    """Says which rows are done: ``__call__(input_ids, scores, **kwargs) -> bools (R,)``, or one bool for all rows.

    input_ids hold the newest token; scores is None.
    """

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __call__")


class StoppingCriteriaList(list):  # type: ignore[type-arg]
    """Criteria; a row is done if one of them says so."""

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        done = _falses(input_ids)
        for criterion in self:
            done = done | criterion(input_ids, scores, **kwargs)
        return done

    @property
    def max_length(self) -> Optional[int]:
        for criterion in self:
            if isinstance(criterion, MaxLengthCriteria):
                return criterion.max_length
        return None


def _falses(input_ids: Any) -> Any:
    return module_of(input_ids).zeros(len(input_ids)) > 0


class MaxLengthCriteria(StoppingCriteria):
    """Rows of max_length tokens, prompt included, are done."""

    def __init__(self, max_length: int, max_position_embeddings: Optional[int] = None) -> None:
        self.max_length = max_length
        self.max_position_embeddings = max_position_embeddings

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return _falses(input_ids) | (input_ids.shape[-1] >= self.max_length)


class MaxTimeCriteria(StoppingCriteria):
    """All rows are done max_time seconds after the object was made, or after initial_timestamp."""

    def __init__(self, max_time: float, initial_timestamp: Optional[float] = None) -> None:
        self.max_time = max_time
        self.initial_timestamp = time.time() if initial_timestamp is None else initial_timestamp

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return _falses(input_ids) | (time.time() - self.initial_timestamp > self.max_time)


class EosTokenCriteria(StoppingCriteria):
    """Rows that end in one of these tokens are done."""

    def __init__(self, eos_token_id: Any) -> None:
        given = eos_token_id.tolist() if hasattr(eos_token_id, "tolist") else eos_token_id
        self.eos_token_id = given if isinstance(given, list) else [given]

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        done = _falses(input_ids)
        for token in self.eos_token_id:
            done = done | (input_ids[:, -1] == token)
        return done


class PrefixConstrained(LogitsProcessor):
    """prefix_allowed_tokens_fn as a processor."""

    def __init__(self, function: Callable[[int, Any], Any], num_beams: int) -> None:
        self.function = function
        self.num_beams = num_beams

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        for row in range(len(input_ids)):
            allowed = self.function(row // self.num_beams, input_ids[row])
            allowed = _allowed(allowed, row, scores.shape[-1])
            kept = scores[row, allowed]
            kept = copy_of(kept)
            scores[row, :] = -math.inf
            scores[row, allowed] = kept
        return scores


def _allowed(answer: Any, row: int, n_vocab: int) -> list[int]:
    """What prefix_allowed_tokens_fn said, checked."""
    given = answer.tolist() if hasattr(answer, "tolist") else answer
    if not isinstance(given, (list, tuple, set, frozenset, range)):
        raise ValueError(f"prefix_allowed_tokens_fn returned {type(answer).__name__} for row {row}: expected a list of ids")
    given = [item.item() if hasattr(item, "item") else item for item in given]
    if not given:
        raise ValueError(
            f"prefix_allowed_tokens_fn allows no token for row {row}: an empty list ends nothing; "
            "allow the end-of-sequence token"
        )
    for item in given:
        if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item < n_vocab:
            raise ValueError(f"prefix_allowed_tokens_fn returned {item!r} for row {row}: expected ids of a vocabulary of {n_vocab} tokens")
    return given


# -- the engine's calls ------------------------------------------------------------------------------------------


class _Thread(threading.local):
    call: Optional["Call"] = None


_thread = _Thread()
_calls: dict[int, "Call"] = {}


def in_callback() -> bool:
    """Whether this thread is the engine's, in a callback: it cannot wait for itself."""
    return _thread.call is not None


class Call:
    """Python objects of one request. Those at other places of its pipeline are parts of a first one, which has the error."""

    def __init__(self, processors: Sequence[Any], criteria: Sequence[Any], kind: str, root: Optional["Call"] = None) -> None:
        self.processors = list(processors)
        self.criteria = list(criteria)
        self.torch = kind == TORCH
        self.root: "Call" = root or self
        self.error: Optional[BaseException] = None
        self.context = contextvars.copy_context()
        self.memory: Any = None  # of the scores that processors see
        self.shape = (0, 0)
        self.lent: Optional[weakref.ref[Any]] = None  # the array over it

    def ids(self, step: Any) -> Any:
        """(rows, length) int64, made anew: they may be kept."""
        import numpy

        n, first = step.n_rows, step.input_ids[0]
        length = first.len
        made = numpy.empty((n, length), numpy.int64)
        for row in range(n):
            at = step.input_ids[row]
            made[row] = numpy.frombuffer(ffi.buffer(at.at, 4 * length), numpy.int32) if length else 0
        return made

    def lend(self, shape: tuple[int, int]) -> Any:
        """(R, V) float32 that nobody holds: the memory of the last call, unless a view or a tensor of it lives on. Views of an
        array that is itself a view of no array keep that array, so one weak reference tells of them all."""
        import numpy

        if self.lent is None or self.lent() is not None or self.shape != shape:
            self.memory, self.shape = ffi.buffer(ffi.new("float[]", shape[0] * shape[1])), shape
        lent: Any = numpy.ndarray(shape, numpy.float32, self.memory)
        self.lent = weakref.ref(lent)
        return lent

    def process(self, step: Any, scores: Any) -> None:
        import numpy

        n, width, stride = scores.n_rows, scores.n_vocab, scores.stride
        whole = numpy.frombuffer(ffi.buffer(scores.data, 4 * ((n - 1) * stride + width)), numpy.float32)
        rows = numpy.lib.stride_tricks.as_strided(whole, (n, width), (4 * stride, 4)) if n > 1 else whole.reshape(1, width)
        lent = self.lend((n, width))
        numpy.copyto(lent, rows)
        ids = self.ids(step)
        if self.torch:
            import torch

            answer = self.run(torch.from_numpy(ids), torch.from_numpy(lent))
        else:
            answer = self.run(ids, lent)
        numpy.copyto(rows, _as_scores(answer, (n, width)))

    def run(self, ids: Any, scores: Any) -> Any:
        shape = tuple(scores.shape)
        for processor in self.processors:
            scores = processor(ids, scores)
            if not hasattr(scores, "shape") or tuple(scores.shape) != shape:
                found = f"shape {tuple(scores.shape)}" if hasattr(scores, "shape") else type(scores).__name__
                raise ValueError(f"{_name(processor)} returned {found}: expected scores of shape {shape}")
        return scores

    def test(self, step: Any, stops: Any) -> None:
        import numpy

        ids: Any = self.ids(step)
        if self.torch:
            import torch

            ids = torch.from_numpy(ids)
        for criterion in self.criteria:
            answer = criterion(ids, None)
            if is_torch(answer):
                answer = answer.detach().cpu().numpy()
            done = numpy.broadcast_to(numpy.asarray(answer, dtype=bool), (step.n_rows,)) if numpy.ndim(answer) == 0 else numpy.asarray(answer, dtype=bool)
            if done.shape != (step.n_rows,):
                raise ValueError(f"{_name(criterion)} returned shape {done.shape}: expected ({step.n_rows},) or one bool")
            for row in numpy.flatnonzero(done):
                stop = stops[int(row)]
                if stop.reason == 0:
                    stop.reason = 5
                    stop.text.at = _CUSTOM
                    stop.text.len = len(_CUSTOM) - 1

    def guarded(self, step: Any, function: Callable[..., None], *args: Any) -> int:
        """A status; an exception is kept."""
        root = self.root
        _thread.call = self
        try:
            if root.error is None:
                root.context.run(function, step, *args)
                return 0
        except BaseException as error:  # noqa: B036 - raised again in the caller
            root.error = error
        finally:
            _thread.call = None
        step.host.fail(step, 9, _RAISED)
        return 9


_CUSTOM = ffi.new("char[]", b"custom")
_RAISED = ffi.new("char[]", b"a Python callback raised an exception")


def _name(callback: Any) -> str:
    return getattr(callback, "__name__", type(callback).__name__)


def _as_scores(answer: Any, shape: tuple[int, int]) -> Any:
    import numpy

    if is_torch(answer):
        return answer.detach().cpu().float().numpy()
    if not is_numpy(answer):
        raise ValueError(f"a processor returned {type(answer).__name__}: expected scores of shape {shape}")
    return answer


def _call_of(step: Any) -> Call:
    return _calls[int(ffi.cast("int64_t *", step.params)[0])]


@_core.callback("cdz_status(*)(const cdz_step *, cdz_scores *)", error=13)
def _apply(step: Any, scores: Any) -> int:
    call = _call_of(step)
    return call.guarded(step, call.process, scores)


@_core.callback("cdz_status(*)(const cdz_step *, cdz_stop *)", error=13)
def _test(step: Any, stops: Any) -> int:
    call = _call_of(step)
    return call.guarded(step, call.test, stops)


def _base(base: Any, keep: list[Any], kind: int, size: int, name: str) -> None:
    def kept(value: str) -> Any:
        keep.append(ffi.new("char[]", value.encode()))
        return keep[-1]

    params = ffi.new("cdz_param[1]")
    keep.append(params)
    params[0].name, params[0].help = kept("handle"), kept("the request's Python objects")
    params[0].type, params[0].min, params[0].max = 2, 0, 2.0**53
    base.size, base.kind = size, kind
    base.id, base.version, base.summary = kept(name), kept("1.0.0"), kept("Objects in Python")
    base.params, base.n_params = params, 1
    base.param_size, base.params_size = ffi.sizeof("cdz_param"), 8


def describe(keep: list[Any], struct: str, kind: int, name: str) -> Any:
    """A descriptor of this module's, or watchers', with its base filled; it lives as long as `keep`."""
    made = ffi.new(struct + " *")
    keep.append(made)
    _base(made.base, keep, kind, ffi.sizeof(struct), name)
    return made


def _register(runtime: _core.Runtime) -> None:
    """Makes the plugins known to a runtime, once."""
    from . import watchers

    with _core._lock:
        if runtime.descriptors is not None:
            return
        keep: list[Any] = []
        processor = describe(keep, "cdz_processor", 1, PROCESSORS)
        processor.caps, processor.apply = 1, _apply
        made = [processor]
        for name, caps in ((CRITERIA, 0), (CRITERIA_EOS, 1 << 16)):
            criterion = describe(keep, "cdz_criterion", 2, name)
            criterion.caps, criterion.test = caps, _test
            made.append(criterion)
        made += watchers.descriptors(keep)
        for descriptor in made:
            err = _core.new_error()
            _core.check(_core.library().cdz_runtime_add_plugin(runtime.pointer, ffi.addressof(descriptor.base), err), err)
        runtime.descriptors = keep


class Part:
    """A plugin of a request's pipeline: a line of [pipeline], its id or file, the lines of its section, and Python's objects."""

    def __init__(self, line: str, plugin: str, section: str = "", call: Optional[Any] = None) -> None:
        self.line, self.plugin, self.section, self.call = line, plugin, section, call

    def key(self) -> tuple[str, ...]:
        return (self.line, self.plugin, self.section, "" if self.call is None else "python")


def criteria_part(call: Call) -> Part:
    """Python's criteria. Rows get pads behind their end if one of them knows of ends."""
    eos = any(hasattr(criterion, "eos_token_id") for criterion in call.criteria)
    return Part("stopping", CRITERIA_EOS if eos else CRITERIA, "", call)


class Borrowed:
    """A pipeline of these parts, given back at the end. Those of Python's objects alone are kept for the next request.

    use: a file that it goes on from. loop: the strategy's line and section."""

    def __init__(self, runtime: _core.Runtime, parts: Sequence[Part], loop: tuple[str, str] = ("", ""), use: str = "") -> None:
        _register(runtime)
        self.calls = [part.call for part in parts if part.call is not None]
        key = (use, *loop, *(word for part in parts for word in part.key()))
        kept = not use and len(self.calls) == len(parts)
        self.idle = runtime.pipelines.setdefault(key, []) if kept else None
        try:
            if self.idle is None:
                raise IndexError
            self.handles, self.pointer = self.idle.pop()
        except IndexError:
            self.handles, self.pointer = _pipeline(runtime, parts, loop, use)
        _calls.update(zip(self.handles, self.calls))

    def give_back(self) -> None:
        for handle in self.handles:
            _calls.pop(handle, None)
        if self.idle is not None:
            self.idle.append((self.handles, self.pointer))
        else:
            _core.library().cdz_pipeline_free(self.pointer)


_next_handle = 0


def _handle() -> int:
    global _next_handle
    with _core._lock:
        _next_handle += 1
        return _next_handle


def _pipeline(runtime: _core.Runtime, parts: Sequence[Part], loop: tuple[str, str], use: str) -> tuple[list[int], Any]:
    lines: dict[str, list[str]] = {}
    sections, handles = "", []
    for number, part in enumerate(parts):
        label = f"part-{number}"
        lines.setdefault(part.line, []).append(label)
        sections += f"[{label}]\nid = {part.plugin}\n{part.section}"
        if part.call is not None:
            handles.append(_handle())
            sections += f"handle = {handles[-1]}\n"
    ini = "[pipeline]\n" + (f"use = {use}\n" if use else "") + loop[0]
    ini += "".join(f"{line} = {', '.join(labels)}\n" for line, labels in lines.items()) + sections + loop[1]
    data = ini.encode()
    out, err = ffi.new("cdz_pipeline **"), _core.new_error()
    _core.check(_core.library().cdz_pipeline_parse(runtime.pointer, data, len(data), b"generate()", out, err), err)
    return handles, out[0]
