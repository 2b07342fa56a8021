"""Continuous batching: transformers' manager over the engine, which decodes all requests together whoever orders them."""

from __future__ import annotations

import contextlib
import enum
import logging
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Iterator, Optional, Sequence

from . import _core, arrays
from ._abi import ffi
from .config import PARAMETERS, GenerationConfig
from .errors import StateError, UnsupportedError, UsageError
from .processors import in_callback

if TYPE_CHECKING:
    from .model import Model

__all__ = [
    "ContinuousBatchingManager",
    "GenerationOutput",
    "RequestStatus",
    "Scheduler",
    "FIFOScheduler",
    "PrefillFirstScheduler",
]

logger = logging.getLogger("cadenza")


class RequestStatus(enum.IntEnum):
    """How far a request is."""

    PENDING = 0
    PREFILLING = 1
    DECODING = 2
    FINISHED = 3
    FAILED = 4


class Scheduler:
    """The order of passes; named by the engine's option."""


class FIFOScheduler(Scheduler):
    """Running answers first."""


class PrefillFirstScheduler(Scheduler):
    """Prompts first."""


@dataclass
class GenerationOutput:
    """An answer, or as much of it as there is: a snapshot, which does not change later."""

    request_id: str
    prompt_ids: list[int] = field(default_factory=list)
    generated_tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    error: Optional[str] = None
    status: RequestStatus = RequestStatus.PENDING
    created_time: float = field(default_factory=time.perf_counter)
    lifespan: tuple[float, float] = (-1, -1)
    timestamps: Optional[list[float]] = None

    def is_finished(self) -> bool:
        return self.status == RequestStatus.FINISHED


# Of a request's keywords those that are no parameters of generation.
_BESIDES = ("quirks", "seed", "tokenizer")
_SCHEDULERS = ("fifo", "prefill_first")


def _check_names(kwargs: dict[str, Any], function: str) -> None:
    for name in kwargs:
        if name not in PARAMETERS and name not in _BESIDES:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}: expected parameters of generation, seed or tokenizer")


def _not_in_callback() -> None:
    """What the engine's thread must not wait for without an end."""
    if in_callback():
        raise StateError("a callback runs on the engine's thread, which serves the manager: give a time-out, or wait after generate() returns")


class _Row:
    """One answer of a request: its id, its tokens so far, and when they came."""

    def __init__(self, name: str, record: bool) -> None:
        self.name = name
        self.tokens: list[int] = []
        self.times: Optional[list[float]] = [] if record else None

    def take(self, ids: list[int]) -> None:
        self.tokens.extend(ids)
        if self.times is not None:
            self.times.extend([time.perf_counter()] * len(ids))


class _Request:
    """What the manager knows of one."""

    def __init__(self, name: str, order: Any, streaming: bool, record: bool) -> None:
        self.name, self.order, self.streaming = name, order, streaming
        self.prompt = list(order.ids[0])
        self.created = time.perf_counter()
        self.began = -1.0
        children = range((order.get("num_return_sequences") or 1) - 1)
        self.rows = [_Row(name, record), *(_Row(f"{name}__child#{i}", record) for i in children)]
        self.identity = 0
        self.cancelled = False
        end = order.get("eos_token_id")
        self.ends = end if isinstance(end, (list, tuple)) else [end]
        length = order.get("max_length")
        self.limit = order.get("max_new_tokens") or (20 if length is None else length - len(self.prompt))

    def goes_on(self, row: _Row) -> bool:
        """Whether an answer's newest token is not its last, as far as tokens tell."""
        return len(row.tokens) < self.limit and row.tokens[-1] not in self.ends


class ContinuousBatchingManager:
    """Requests as they come, results as they are ready.

    start(), add_request(ids) -> id, get_result(timeout=) -> GenerationOutput or None, request_id_iter(id), cancel_request(id),
    stop(), join(). max_queue_size: where so many wait to be begun, a further one waits 10 s for room, then queue.Full. A config that is
    given stands alone: the model's own says nothing then. kwargs: parameters of generation. generate() may run beside it.
    """

    def __init__(
        self,
        model: "Model",
        generation_config: Optional[GenerationConfig] = None,
        manual_eviction: bool = False,
        max_queue_size: int = 0,
        q_padding_interval_size: int = 0,
        kv_padding_interval_size: int = 0,
        max_cached_graphs: int = 0,
        allow_block_sharing: bool = True,
        use_async_batching: Optional[bool] = None,
        **kwargs: Any,
    ) -> None:
        _check_names(kwargs, "init_continuous_batching")
        self.model = model
        self.generation_config = model.generation_config if generation_config is None else generation_config
        self.manual_eviction = manual_eviction
        self.kwargs = {**self._not_of_the_model(generation_config), **kwargs}
        self.do_sample = kwargs.get("do_sample", self.generation_config.do_sample)
        self.num_return_sequences = kwargs.get("num_return_sequences", self.generation_config.num_return_sequences) or 1
        self.log_prob_generation = getattr(self.generation_config, "log_prob_generation", False)
        if self.log_prob_generation:
            raise UnsupportedError("log_prob_generation: use output_scores and compute_transition_scores of generate(), or score()")
        scheduler = getattr(self.generation_config, "scheduler", None)
        if scheduler is not None and scheduler not in _SCHEDULERS:
            logger.warning("no scheduler %r: expected %s; the engine's own serves", scheduler, " or ".join(_SCHEDULERS))
        self.input_queue: "queue.Queue[_Request]" = queue.Queue(maxsize=max_queue_size)
        self.output_queue: "queue.Queue[GenerationOutput]" = queue.Queue()
        self.stop_event = threading.Event()
        self._use_prefix_sharing = allow_block_sharing
        self._lock = threading.Lock()
        self._requests: dict[str, _Request] = {}
        self._counter = 0
        self._thread: Optional[threading.Thread] = None
        self._events: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._handles: dict[str, Any] = {}

    def _not_of_the_model(self, given: Optional[GenerationConfig]) -> dict[str, Any]:
        """None for what a model's own config says and the given one does not."""
        if given is None:
            return {}
        own = {**self.model._own, **self.model.generation_config.given()}
        return {name: None for name in own if name in PARAMETERS and getattr(given, name, None) is None}

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to serve. A second start is a logged line."""
        if self.is_running():
            logger.warning("the manager runs already")
            return
        self.model._check()
        self.stop_event.clear()
        self._thread = threading.Thread(target=self._serve, name="cadenza-manager", daemon=True)
        self._thread.start()

    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self, block: bool = True, timeout: Optional[float] = None) -> None:
        """No more requests; those that there are run to their end. block: waits for it. Before the start it is a logged line."""
        if self._thread is None:
            logger.warning("the manager was not started")
            return
        self.stop_event.set()
        self._events.put(None)
        if block:
            self.join(timeout=timeout)

    def join(self, stop_trigger_time: Optional[float] = None, timeout: Optional[float] = None) -> None:
        """Waits for the end of the thread, which stop() asks for."""
        if self._thread is None:
            return
        if timeout is None:
            _not_in_callback()
        until = None if timeout is None else time.monotonic() + timeout
        while self._thread.is_alive() and (until is None or time.monotonic() < until):
            self._thread.join(0.05)
        if self._thread.is_alive():
            logger.warning("the manager still runs after %s s", timeout)

    # -- requests --------------------------------------------------------------------------------------------

    def add_request(
        self,
        input_ids: Any,
        request_id: Optional[str] = None,
        max_new_tokens: Optional[int] = None,
        streaming: bool = False,
        record_timestamps: bool = False,
        eos_token_id: Any = None,
        **kwargs: Any,
    ) -> str:
        """Orders an answer to one row of ids; returns its id, req_N if none is given. ValueError: the id is in use."""
        from .model import Order

        _check_names(kwargs, "add_request")
        if not hasattr(input_ids, "__iter__"):
            raise TypeError(f"add_request: expected a row of ids, found {type(input_ids).__name__}")
        if self.stop_event.is_set():
            raise StateError("the manager is stopping: it takes no more requests")
        given = {**self.kwargs, **kwargs}
        if max_new_tokens is not None:
            given["max_new_tokens"] = max_new_tokens
        if eos_token_id is not None:
            given["eos_token_id"] = eos_token_id
        config = self.generation_config
        order = Order(self.model, input_ids, None if config is self.model.generation_config else config, given)
        if order.ids is None or len(order.ids) != 1:
            raise UsageError("add_request: expected one row of ids")
        request = self._enter(request_id, order, streaming, record_timestamps)
        try:
            self.input_queue.put(request, timeout=10)
        except queue.Full:
            self._forget(request.name)
            raise queue.Full(f"{self.input_queue.maxsize} requests wait already") from None
        self._events.put(None)
        return request.name

    def _enter(self, name: Optional[str], order: Any, streaming: bool, record: bool) -> _Request:
        with self._lock:
            if name is None:
                name = self._new_names(1)[0]
            if name in self._requests:
                raise UsageError(f"request {name!r} runs already")
            made = self._requests[name] = _Request(name, order, streaming, record)
            return made

    def _new_names(self, n: int) -> list[str]:
        first, self._counter = self._counter, self._counter + n
        return [f"req_{i}" for i in range(first, first + n)]

    def _forget(self, name: str) -> Optional[_Request]:
        with self._lock:
            return self._requests.pop(name, None)

    def add_requests(self, inputs: Sequence[Any], max_new_tokens: Optional[int] = None, streaming: bool = False,
                     record_timestamps: bool = False, **kwargs: Any) -> None:  # fmt: skip
        """add_request for each, by the names req_N in their order. Equal beginnings are ordered one after the other."""
        rows = [arrays.rows(ids, "inputs")[0] for ids in inputs]
        with self._lock:
            named = list(zip(self._new_names(len(rows)), rows))
        if self._use_prefix_sharing:
            named.sort(key=lambda pair: pair[1], reverse=True)
        for name, ids in named:
            self.add_request(ids, name, max_new_tokens, streaming, record_timestamps, **kwargs)

    def cancel_request(self, request_id: str) -> None:
        """Ends a request; no result follows."""
        request = self._forget(request_id)
        if request is not None:
            request.cancelled = True
            if request.identity:
                _core.library().cdz_cancel(self.model._runtime.pointer, request.identity, ffi.NULL)

    def evict_request_from_cache(self, request_id: str) -> None:
        """With manual_eviction; the engine frees what a finished request held by itself. RuntimeError without."""
        if not self.manual_eviction:
            raise RuntimeError("evict_request_from_cache is for managers with manual_eviction=True")

    # -- results ---------------------------------------------------------------------------------------------

    def _wait_for(self, take: Any, timeout: Optional[float]) -> Optional[GenerationOutput]:
        """What take() finds in the queue of results; None after the time-out, or when nothing can come any more."""
        if timeout is None:
            _not_in_callback()
        until = None if timeout is None else time.monotonic() + timeout
        with self.output_queue.not_empty:
            while True:
                alive = self.is_running()  # before a look: a thread that has ended leaves nothing behind it
                found: Optional[GenerationOutput] = take()
                left = 0.05 if until is None else min(0.05, until - time.monotonic())
                if found is not None or left <= 0 or not alive:
                    return found
                self.output_queue.not_empty.wait(left)

    def get_result(self, request_id: Optional[str] = None, timeout: Optional[float] = None) -> Optional[GenerationOutput]:
        """The next result, or None after the time-out, or when nothing can come any more. With an id: None if the next one is
        another's, which goes to the end of the queue. ValueError: a negative time-out of a manager that was started."""
        if timeout is not None and timeout < 0 and self._thread is not None:
            raise ValueError(f"timeout: expected at least 0, found {timeout}")
        results = self.output_queue.queue
        found = self._wait_for(lambda: results.popleft() if results else None, timeout)
        if found is not None and request_id is not None and found.request_id != request_id:
            self.output_queue.put(found)
            return None
        return found

    def __iter__(self) -> Iterator[GenerationOutput]:
        while self.is_running() or not self.output_queue.empty():
            found = self.get_result(timeout=0.1)
            if found is not None:
                yield found

    def request_id_iter(self, request_id: str) -> Iterator[GenerationOutput]:
        """Results of one request, until it is finished or cancelled, or the manager ends."""
        while True:
            known = request_id.partition("__child#")[0] in self._requests  # before a look, as above
            found = self._wait_for(lambda: self._result_of(request_id), 0.1)
            if found is not None:
                yield found
            elif not known or not self.is_running():
                return
            if found is not None and found.status in (RequestStatus.FINISHED, RequestStatus.FAILED):
                return

    def _result_of(self, name: str) -> Optional[GenerationOutput]:
        """The first result of a request, taken out of the queue, which the caller has locked."""
        results = self.output_queue.queue
        found = next((result for result in results if result.request_id == name), None)
        if found is not None:
            results.remove(found)
        return found

    # -- the thread ------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        running: dict[int, _Request] = {}
        while running or not self.stop_event.is_set() or not self.input_queue.empty() or not self._events.empty():
            event = self._next()
            if event is not None:
                self._hear(event, running)
            while not self.input_queue.empty():
                self._submit(self.input_queue.get(), running)

    def _next(self) -> Any:
        try:
            return self._events.get(timeout=0.05)
        except queue.Empty:
            return None

    def _submit(self, request: _Request, running: dict[int, _Request]) -> None:
        if request.cancelled:
            return
        lib, identity = _core.library(), ffi.new("uint64_t *")
        handle = ffi.new_handle((self._events, request))
        request.began = time.perf_counter()
        try:
            made = request.order.request(ffi.NULL, None)
            made.on_event, made.user = _on_event, handle
            self._handles[request.name] = handle
            self.model._submit(made, identity)
        except Exception as error:
            self._handles.pop(request.name, None)
            self._end(request, RequestStatus.FAILED, str(error))
            return
        request.identity = int(identity[0])
        running[request.identity] = request
        if request.cancelled:
            lib.cdz_cancel(self.model._runtime.pointer, request.identity, ffi.NULL)

    def _hear(self, event: tuple[_Request, int, Optional[list[int]]], running: dict[int, _Request]) -> None:
        request, number, ids = event
        if ids is not None:
            row = request.rows[number]
            row.take(ids)
            if request.streaming and not request.cancelled and request.goes_on(row):
                self._publish(request, row, RequestStatus.DECODING)
            return
        lib, out, err = _core.library(), ffi.new("cdz_result **"), _core.new_error()
        status = lib.cdz_wait(self.model._runtime.pointer, request.identity, out, err)
        running.pop(request.identity, None)
        self._handles.pop(request.name, None)
        result = _core.Result(out[0]) if out[0] else None
        if request.cancelled:
            return
        for i, row in enumerate(request.rows):
            if result is not None and i < result.rows():
                row.tokens = result.new_ids(i)
        self._end(request, RequestStatus.FINISHED if status == 0 else RequestStatus.FAILED, _core.text(err.text) if status else None)

    def _end(self, request: _Request, status: RequestStatus, error: Optional[str]) -> None:
        for row in request.rows:
            self._publish(request, row, status, error)
        self._forget(request.name)

    def _publish(self, request: _Request, row: _Row, status: RequestStatus, error: Optional[str] = None) -> None:
        times = None if row.times is None else row.times[: len(row.tokens)]
        last = -1 if status == RequestStatus.DECODING else time.perf_counter()
        self.output_queue.put(GenerationOutput(
            row.name, list(request.prompt), list(row.tokens), [], error, status, request.created, (request.began, last), times,
        ))  # fmt: skip


@_core.callback("void(*)(void *, const cdz_event *)")
def _on_event(user: Any, event: Any) -> None:
    events, request = ffi.from_handle(user)
    if event.kind == 2:
        events.put((request, 0, None))
    elif event.n_ids:
        events.put((request, int(event.row), list(ffi.unpack(event.ids, event.n_ids))))


@contextlib.contextmanager
def running(
    model: "Model",
    generation_config: Optional[GenerationConfig] = None,
    manual_eviction: bool = False,
    max_queue_size: int = 0,
    q_padding_interval_size: int = 0,
    kv_padding_interval_size: int = 0,
    allow_block_sharing: bool = True,
    block: bool = True,
    timeout: Optional[float] = None,
    use_async_batching: Optional[bool] = None,
    max_cached_graphs: int = 0,
    **kwargs: Any,
) -> Iterator[ContinuousBatchingManager]:
    """A manager that runs inside a with statement."""
    manager = ContinuousBatchingManager(
        model, generation_config, manual_eviction, max_queue_size, allow_block_sharing=allow_block_sharing, **kwargs
    )
    manager.start()
    try:
        yield manager
    finally:
        manager.stop(block=block, timeout=timeout)


def generate_batch(
    model: "Model",
    inputs: Sequence[Any],
    generation_config: Optional[GenerationConfig] = None,
    q_padding_interval_size: int = 0,
    kv_padding_interval_size: int = 0,
    allow_block_sharing: bool = True,
    record_timestamps: bool = False,
    progress_bar: bool = True,
    use_async_batching: Optional[bool] = None,
    max_cached_graphs: int = 0,
    **kwargs: Any,
) -> dict[str, GenerationOutput]:
    """Model.generate_batch: failed ones are missing, with a logged line. Of several answers to a prompt the first counts."""
    rows = [arrays.rows(ids, "inputs")[0] for ids in inputs]
    if not rows:
        return {}
    names = [f"req_{i}" for i in range(len(rows))]
    found: dict[str, GenerationOutput] = {}
    with running(model, generation_config, allow_block_sharing=allow_block_sharing, **kwargs) as manager:
        try:
            manager.add_requests(rows, record_timestamps=record_timestamps)
            while any(name not in found for name in names):
                result = manager.get_result(timeout=1)
                if result is not None:
                    found[result.request_id] = result
        except BaseException:
            for name in names:
                manager.cancel_request(name)
            raise
    for name in names:
        if found[name].status == RequestStatus.FAILED:
            logger.error("%s failed: %s", name, found[name].error)
    return {name: found[name] for name in names if found[name].status == RequestStatus.FINISHED}
