"""Python's own logits processors and stopping criteria: transformers' classes, and how the engine calls them.

The library knows four plugins of this module (:data:`PROCESSORS`, :data:`CRITERIA`, :data:`CRITERIA_EOS` and :data:`STEPS`). A request with
Python objects borrows a pipeline whose plugins have a number, by which the callbacks find the request's objects. They run on
the engine's thread, on its own stack; what they raise is kept, ends the request, and is raised again in generate().
"""

from __future__ import annotations

import contextvars
import copy
import inspect
import math
import threading
import time
import warnings
import weakref
from typing import Any, Callable, Optional, Sequence

from . import _core
from ._abi import ffi
from .arrays import NUMPY, TORCH, copy_of, ids_array, is_numpy, is_torch, like, module_of, plain

__all__ = [
    "LogitsProcessor",
    "LogitsProcessorList",
    "StoppingCriteria",
    "StoppingCriteriaList",
    "MaxLengthCriteria",
    "MaxTimeCriteria",
    "EosTokenCriteria",
    "validate_stopping_criteria",
]

PROCESSORS = "org.cadenza.python.processors"
PREFIX = "prefix_allowed_tokens"  # of [generation]: its value names the processor that stands there
CRITERIA = "org.cadenza.python.criteria"
CRITERIA_EOS = "org.cadenza.python.criteria-eos"
STEPS = "org.cadenza.python.steps"  # an observer: it keeps the scores for the criteria


class LogitsProcessor:
    """Edits scores: ``__call__(input_ids, scores) -> scores``.

    R counts all rows of the batch, beams of all prompts too; those that have ended are filled with pad.
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

    input_ids hold the newest token; R counts all rows of the batch, those that have ended are filled with pad, and what is said of
    them changes nothing. Of a search, R counts the candidates of all prompts. scores: with output_scores a tuple of each step's
    (R, vocabulary), else None.
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
        given = plain(eos_token_id)
        self._ends = given if isinstance(given, list) else [given]
        self.eos_token_id = ids_array(self._ends)

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        done = _falses(input_ids)
        for token in self._ends:
            done = done | (input_ids[:, -1] == token)
        return done


def validate_stopping_criteria(stopping_criteria: StoppingCriteriaList, max_length: int) -> StoppingCriteriaList:
    """The criteria, with one of max_length if none has it; a UserWarning if theirs is another."""
    theirs, made = stopping_criteria.max_length, copy.deepcopy(stopping_criteria)
    if theirs is None:
        made.append(MaxLengthCriteria(max_length=max_length))
    elif theirs != max_length:
        warnings.warn("You set different `max_length` for stopping criteria and `max_length` parameter", UserWarning, stacklevel=2)
    return made


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
_buffer, _unpack, _cast, _move, _HANDLE = ffi.buffer, ffi.unpack, ffi.cast, ffi.memmove, ffi.typeof("int64_t *")
_INT32, _INT64, _FLOAT = "i4", "i8", "f4"
_ONE_ROW = ((0, 1),)
_calls: dict[int, "Call"] = {}


def _from_numpy() -> Any:
    import torch

    return torch.from_numpy


def in_callback() -> bool:
    """Whether this thread is the engine's, in a callback: it cannot wait for itself."""
    return _thread.call is not None


class Call:
    """Python objects of one request. Those at other places of its pipeline are parts of a first one, which has the error."""

    def __init__(self, processors: Sequence[Any], criteria: Sequence[Any], kind: str, root: Optional["Call"] = None) -> None:
        import numpy

        self.processors = list(processors)
        self.criteria = list(criteria)
        self.torch = kind == TORCH
        self.wrap: Any = _from_numpy() if self.torch else None
        self.numpy: Any = numpy  # an import in a call costs more than what it is for
        self.root: "Call" = root or self
        self.error: Optional[BaseException] = None
        self.context = contextvars.copy_context()
        self.lends = True  # the engine's own memory of scores
        self.memory: Any = None  # of copies of them
        self.shape = (0, 0)
        self.lent: Optional[weakref.ref[Any]] = None  # the array over it
        self.steps: Optional[list[Any]] = None  # each step's scores, for the criteria

    def spans(self, step: Any, n: int) -> Sequence[tuple[int, int]]:
        """Neighbouring rows of one length, (first, end): they are shown together. Drafts are judged by rows that each have a token
        more than the one before, and the reference shows those one after the other."""
        if n == 1:
            return _ONE_ROW
        lengths = [row.len for row in _unpack(step.input_ids, n)]
        ends = [i + 1 for i in range(n) if i + 1 == n or lengths[i + 1] != lengths[i]]
        return list(zip([0, *ends], ends))

    def ids(self, step: Any, first: int, end: int) -> Any:
        """(rows, length) int64, made anew: they may be kept."""
        numpy, rows = self.numpy, step.input_ids
        length = rows[first].len
        if end - first == 1 and length:
            return numpy.frombuffer(_buffer(rows[first].at, 4 * length), _INT32).astype(_INT64).reshape(1, -1)
        made = numpy.empty((end - first, length), _INT64)
        for i in range(first, end if length else first):
            made[i - first] = numpy.frombuffer(_buffer(rows[i].at, 4 * length), _INT32)
        return made

    def rows(self, at: Any, stride: int, shape: tuple[int, int]) -> Any:
        """The engine's memory of rows of scores, as an array."""
        n, width = shape
        return self.numpy.ndarray(shape, _FLOAT, _buffer(at, 4 * ((n - 1) * stride + width)), 0, (4 * stride, 4))

    def process(self, step: Any, scores: Any) -> None:
        stride, width = scores.stride, scores.n_vocab
        for first, end in self.spans(step, scores.n_rows):
            ids, shape = self.ids(step, first, end), (end - first, width)
            if self.lends and stride == width and step.shared:
                self.process_rows(step, scores, first, ids, shape)
            else:
                self.process_copies(ids, scores.data + first * stride, stride, shape)

    def process_rows(self, step: Any, scores: Any, first: int, ids: Any, shape: tuple[int, int]) -> None:
        """Processors are shown the engine's own memory. If somebody holds it afterwards it is his, and the engine goes on elsewhere.
        Views of an array that is itself a view of no array keep that array, so one weak reference tells of them all."""
        shown = self.rows(scores.data + first * shape[1], shape[1], shape)
        known = weakref.ref(shown)
        answer: Optional[Any] = None
        try:
            answer = self.answer(ids, shown, shape)
        finally:  # what was raised holds it by its traceback
            del shown
            held = known()
            if held is not None:
                self.give(step, scores, held)
        if answer is not None:
            self.rows(scores.data + first * shape[1], shape[1], shape)[...] = answer

    def give(self, step: Any, scores: Any, held: Any) -> None:
        """The memory of this call's scores goes with the array. Who kept once is shown copies from now on: to move costs more."""
        host, memory = _cast("const cdz_scores_host *", step.shared), ffi.new("void **")
        _core.check(host.keep(step, scores, memory), None)
        _core.on_delete(held, host.release, memory[0])
        self.lends = False

    def lend(self, shape: tuple[int, int]) -> Any:
        """(R, V) float32 that nobody holds: the memory of the last call, unless a view or a tensor of it lives on."""
        if self.lent is None or self.lent() is not None or self.shape != shape:
            self.memory, self.shape = ffi.buffer(ffi.new("float[]", shape[0] * shape[1])), shape
        lent: Any = self.numpy.ndarray(shape, _FLOAT, self.memory)
        self.lent = weakref.ref(lent)
        return lent

    def process_copies(self, ids: Any, at: Any, stride: int, shape: tuple[int, int]) -> None:
        """A row is copied for the processors, and what they make of it is copied back: as plain memory where it lies in one piece,
        which touches less code than NumPy's assignments; the weights have gone through the caches since the last step."""
        lent, size = self.lend(shape), 4 * shape[0] * shape[1]
        one_piece = shape[0] == 1 or stride == shape[1]
        if one_piece:
            _move(self.memory, at, size)
        else:
            lent[...] = self.rows(at, stride, shape)
        answer = self.answer(ids, lent, shape)
        if answer is None and one_piece:
            _move(at, self.memory, size)
        else:
            self.rows(at, stride, shape)[...] = lent if answer is None else answer

    def answer(self, ids: Any, lent: Any, shape: tuple[int, int]) -> Optional[Any]:
        """What the processors made of the scores, as an array; None: it lies where the scores were."""
        if self.wrap is None:
            answer = self.run(ids, lent, shape)
            if answer is lent:
                return None
        else:
            given = self.wrap(lent)
            place = given.data_ptr()
            answer = self.run(self.wrap(ids), given, shape)
            if answer is given and answer.data_ptr() == place:  # a tensor may be given other memory
                return None
        made = _as_scores(answer, shape)
        return None if _same_place(made, lent) else made

    def run(self, ids: Any, scores: Any, shape: tuple[int, int]) -> Any:
        given = scores
        for processor in self.processors:
            scores = processor(ids, scores)
            if scores is not given and (not hasattr(scores, "shape") or tuple(scores.shape) != shape):
                found = f"shape {tuple(scores.shape)}" if hasattr(scores, "shape") else type(scores).__name__
                raise ValueError(f"{_name(processor)} returned {found}: expected scores of shape {shape}")
        if scores is given and tuple(scores.shape) != shape:
            raise ValueError(f"a processor gave scores another shape, {tuple(scores.shape)}: expected {shape}")
        return scores

    def test(self, step: Any, stops: Any) -> None:
        steps = self.root.steps
        scores = None if steps is None else tuple(steps)
        for first, end in self.spans(step, step.n_rows):
            ids: Any = self.ids(step, first, end)
            if self.wrap is not None:
                ids = self.wrap(ids)
            for criterion in self.criteria:
                answer = criterion(ids, scores)
                if answer is not False:
                    self.stop(criterion, answer, end - first, stops + first)

    def stop(self, criterion: Any, answer: Any, n: int, stops: Any) -> None:
        """What a criterion says, to the engine."""
        numpy = self.numpy
        if answer is None or isinstance(answer, str):
            raise TypeError(f"{_name(criterion)} returned {type(answer).__name__}: expected a bool for each row, or one")
        if is_torch(answer):
            answer = answer.detach().cpu().numpy()
        done = numpy.asarray(answer, dtype=bool)
        if done.ndim and done.shape != (n,):
            raise ValueError(f"{_name(criterion)} returned shape {done.shape}: expected ({n},) or one bool")
        if not done.any():
            return
        for row in range(n) if done.ndim == 0 else numpy.flatnonzero(done).tolist():
            stop = stops[row]
            if stop.reason == 0:
                stop.reason = 5
                stop.text.at = _CUSTOM
                stop.text.len = len(_CUSTOM) - 1

    def keep_step(self, step: Any, seen: Any) -> None:
        """The scores of a whole step, for the criteria. Those of made-up histories are no step's."""
        numpy, n, width = self.numpy, step.n_rows, seen.n_vocab
        if n != step.request.n_rows or self.steps is None:
            return
        made = numpy.empty((n, width), numpy.float32)
        for row in range(n):
            made[row] = numpy.frombuffer(_buffer(seen.after[row], 4 * width), numpy.float32)
        self.steps.append(like(made, TORCH if self.torch else NUMPY))

    def guarded(self, step: Any, function: Callable[..., None], *args: Any) -> int:
        """A status; an exception is kept."""
        root = self.root
        if root.error is None:
            _thread.call = self
            try:
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


def _same_place(array: Any, other: Any) -> bool:
    """Whether it is all of the other, which lies in one piece."""
    if array.dtype != other.dtype or not array.flags.c_contiguous:
        return False
    same: bool = array.__array_interface__["data"][0] == other.__array_interface__["data"][0]
    return same


def _call_of(step: Any) -> Call:
    return _calls[_cast(_HANDLE, step.params)[0]]


@_core.callback("cdz_status(*)(const cdz_step *, void **)", error=13)
def _begin(step: Any, shared: Any) -> int:
    """shared: by what the processors may keep the engine's memory; NULL: they may not."""
    found = step.host.extension(b"cadenza.scores/1")
    if found and _cast("const cdz_scores_host *", found).may_keep(step):
        shared[0] = _cast("void *", found)
    return 0


@_core.callback("cdz_status(*)(const cdz_step *, cdz_scores *)", error=13)
def _apply(step: Any, scores: Any) -> int:
    call = _call_of(step)
    return call.guarded(step, call.process, scores)


@_core.callback("cdz_status(*)(const cdz_step *, cdz_stop *)", error=13)
def _test(step: Any, stops: Any) -> int:
    call = _call_of(step)
    return call.guarded(step, call.test, stops)


@_core.callback("cdz_status(*)(const cdz_step *, const cdz_seen *)", error=13)
def _steps(step: Any, seen: Any) -> int:
    call = _call_of(step)
    return call.guarded(step, call.keep_step, seen)


_ended = ffi.new("cdz_ended_api *", [ffi.sizeof("cdz_ended_api")])


@_core.callback("const void *(*)(const char *)", error=ffi.NULL)
def _sees_ended(name: Any) -> Any:
    """The tables of the plugins that are shown the rows that have ended, as transformers shows them."""
    return ffi.cast("const void *", _ended) if ffi.string(name) == b"cadenza.ended/1" else ffi.NULL


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
        processor.caps, processor.begin, processor.apply = 1, _begin, _apply
        steps = describe(keep, "cdz_observer", 5, STEPS)
        steps.scores = _steps
        made = [processor, steps]
        for name, caps in ((CRITERIA, 0), (CRITERIA_EOS, 1 << 16)):
            criterion = describe(keep, "cdz_criterion", 2, name)
            criterion.caps, criterion.test = caps, _test
            made.append(criterion)
        for each in made:
            each.base.extension = _sees_ended
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
        if part.line == PREFIX:
            sections += f"[generation]\n{PREFIX} = {label}\n"
        else:
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
