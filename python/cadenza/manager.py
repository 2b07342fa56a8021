"""Continuous batching: transformers' manager over the engine, which decodes all requests together whoever orders them."""

from __future__ import annotations

import contextlib
import enum
import logging
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Iterator, Optional, Sequence

from . import _core, arrays
from ._abi import ffi
from .config import GenerationConfig
from .errors import StateError, UsageError

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


class _Request:
    """What the manager knows of one."""

    def __init__(self, name: str, order: Any, streaming: bool, record: bool) -> None:
        self.name, self.order, self.streaming = name, order, streaming
        self.prompt = list(order.ids[0])
        self.created = self.began = time.perf_counter()
        self.tokens: list[int] = []
        self.times: Optional[list[float]] = [] if record else None
        self.identity = 0
        self.cancelled = False


class ContinuousBatchingManager:
    """Requests as they come, results as they are ready.

    start(), add_request(ids) -> id, get_result(timeout=) -> GenerationOutput or None, request_id_iter(id), cancel_request(id),
    stop(), join(). max_queue_size: further requests wait 10 s for room, then queue.Full. generate() may run beside it.
    """

    def __init__(
        self,
        model: "Model",
        generation_config: Optional[GenerationConfig] = None,
        manual_eviction: bool = False,
        max_queue_size: int = 0,
        q_padding_interval_size: int = 0,
        kv_padding_interval_size: int = 0,
        allow_block_sharing: bool = True,
        use_async_batching: Optional[bool] = None,
        max_cached_graphs: int = 0,
        **kwargs: Any,
    ) -> None:
        self.model = model
        self.generation_config = generation_config
        self.manual_eviction = manual_eviction
        self.max_queue_size = max_queue_size
        self.kwargs = kwargs
        self._lock = threading.Condition()
        self._results: deque[GenerationOutput] = deque()
        self._requests: dict[str, _Request] = {}
        self._kept: set[str] = set()  # finished, with manual_eviction
        self._counter = 0
        self._running = self._stopping = False
        self._thread: Optional[threading.Thread] = None
        self._events: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._handles: dict[str, Any] = {}

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to serve. A second start is a logged line."""
        if self._thread is not None and self._thread.is_alive():
            logger.warning("the manager runs already")
            return
        self.model._check()
        self._running, self._stopping = True, False
        self._thread = threading.Thread(target=self._serve, name="cadenza-manager", daemon=True)
        self._thread.start()

    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self, block: bool = True, timeout: Optional[float] = None) -> None:
        """No more requests; those that there are run to their end. block: waits for it."""
        self._stopping = True
        self._events.put(None)
        if block:
            self.join(timeout=timeout)

    def join(self, stop_trigger_time: Optional[float] = None, timeout: Optional[float] = None) -> None:
        """Waits for the end of the thread, which stop() asks for."""
        if self._thread is None:
            return
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

        if self._stopping:
            raise StateError("the manager is stopping: it takes no more requests")
        given = {**self.kwargs, **kwargs}
        if max_new_tokens is not None:
            given["max_new_tokens"] = max_new_tokens
        if eos_token_id is not None:
            given["eos_token_id"] = eos_token_id
        order = Order(self.model, input_ids, self.generation_config, given)
        if order.ids is None or len(order.ids) != 1:
            raise UsageError("add_request: expected one row of ids")
        with self._lock:
            if self.max_queue_size and not self._lock.wait_for(lambda: len(self._requests) < self.max_queue_size, 10):
                raise queue.Full(f"{self.max_queue_size} requests wait already")
            if request_id is None:
                request_id = f"req_{self._counter}"
                self._counter += 1
            if request_id in self._requests:
                raise UsageError(f"request {request_id!r} runs already")
            request = _Request(request_id, order, streaming, record_timestamps)
            self._requests[request_id] = request
        self._events.put(request)
        return request_id

    def add_requests(self, inputs: Sequence[Any], max_new_tokens: Optional[int] = None, streaming: bool = False,
                     record_timestamps: bool = False, **kwargs: Any) -> None:  # fmt: skip
        """add_request for each."""
        for ids in inputs:
            self.add_request(ids, None, max_new_tokens, streaming, record_timestamps, **kwargs)

    def cancel_request(self, request_id: str) -> None:
        """Ends a request; no result follows."""
        with self._lock:
            request = self._requests.pop(request_id, None)
            self._lock.notify_all()
        if request is not None:
            request.cancelled = True
            if request.identity:
                _core.library().cdz_cancel(self.model._runtime.pointer, request.identity, ffi.NULL)

    def evict_request_from_cache(self, request_id: str) -> None:
        """With manual_eviction: forgets a finished request. RuntimeError without."""
        if not self.manual_eviction:
            raise RuntimeError("evict_request_from_cache is for managers with manual_eviction=True")
        with self._lock:
            self._kept.discard(request_id)

    # -- results ---------------------------------------------------------------------------------------------

    def get_result(self, request_id: Optional[str] = None, timeout: Optional[float] = None) -> Optional[GenerationOutput]:
        """The next result, or None after the time-out, or when nothing can come any more. With an id: None if the next one is
        another's, which goes to the end of the queue."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while not self._results:
                left = 0.05 if until is None else min(0.05, until - time.monotonic())
                if left <= 0 or (not self.is_running() and not self._results):
                    return None
                self._lock.wait(left)
            found = self._results.popleft()
            if request_id is not None and found.request_id != request_id:
                self._results.append(found)
                return None
            return found

    def __iter__(self) -> Iterator[GenerationOutput]:
        while self.is_running() or self._results:
            found = self.get_result(timeout=0.1)
            if found is not None:
                yield found

    def request_id_iter(self, request_id: str) -> Iterator[GenerationOutput]:
        """Results of one request, until it is finished or cancelled, or the manager ends."""
        while True:
            with self._lock:
                found = next((r for r in self._results if r.request_id == request_id), None)
                if found is not None:
                    self._results.remove(found)
                elif request_id not in self._requests or not self.is_running():
                    return
                else:
                    self._lock.wait(0.05)
                    continue
            yield found
            if found.status in (RequestStatus.FINISHED, RequestStatus.FAILED):
                return

    # -- the thread ------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        running: dict[int, _Request] = {}
        while True:
            event = self._next()
            if event is None and self._stopping and not running and self._events.empty():
                break
            if isinstance(event, _Request):
                self._submit(event, running)
            elif event is not None:
                self._hear(event, running)
        with self._lock:
            self._lock.notify_all()

    def _next(self) -> Any:
        try:
            return self._events.get(timeout=0.05)
        except queue.Empty:
            return None

    def _submit(self, request: _Request, running: dict[int, _Request]) -> None:
        if request.cancelled:
            return
        lib, identity, err = _core.library(), ffi.new("uint64_t *"), _core.new_error()
        handle = ffi.new_handle((self._events, request))
        try:
            made = request.order.request(ffi.NULL, None)
            made.on_event, made.user = _on_event, handle
            self._handles[request.name] = handle
            _core.check(lib.cdz_submit(self.model._runtime.pointer, made, identity, err), err)
        except Exception as error:
            self._publish(request, RequestStatus.FAILED, str(error), last=True)
            return
        request.identity = int(identity[0])
        running[request.identity] = request
        if request.cancelled:
            lib.cdz_cancel(self.model._runtime.pointer, request.identity, ffi.NULL)

    def _hear(self, event: tuple[_Request, Optional[list[int]]], running: dict[int, _Request]) -> None:
        request, ids = event
        if ids is not None:
            request.tokens.extend(ids)
            if request.times is not None:
                request.times.extend([time.perf_counter()] * len(ids))
            if request.streaming and not request.cancelled:
                self._publish(request, RequestStatus.DECODING, None, last=False)
            return
        lib, out, err = _core.library(), ffi.new("cdz_result **"), _core.new_error()
        status = lib.cdz_wait(self.model._runtime.pointer, request.identity, out, err)
        running.pop(request.identity, None)
        self._handles.pop(request.name, None)
        result = _core.Result(out[0]) if out[0] else None
        if request.cancelled:
            return
        if result is not None:
            request.tokens = result.new_ids(0)
        if status == 0:
            self._publish(request, RequestStatus.FINISHED, None, last=True)
        else:
            self._publish(request, RequestStatus.FAILED, _core.text(err.text), last=True)

    def _publish(self, request: _Request, status: RequestStatus, error: Optional[str], last: bool) -> None:
        made = GenerationOutput(
            request.name, list(request.prompt), list(request.tokens), [], error, status, request.created,
            (request.began, time.perf_counter() if last else -1), None if request.times is None else list(request.times),
        )  # fmt: skip
        with self._lock:
            self._results.append(made)
            if last:
                self._requests.pop(request.name, None)
                if self.manual_eviction:
                    self._kept.add(request.name)
            self._lock.notify_all()


@_core.callback("void(*)(void *, const cdz_event *)")
def _on_event(user: Any, event: Any) -> None:
    events, request = ffi.from_handle(user)
    if event.kind == 2:
        events.put((request, None))
    elif event.n_ids:
        events.put((request, list(ffi.unpack(event.ids, event.n_ids))))


@contextlib.contextmanager
def running(model: "Model", generation_config: Optional[GenerationConfig] = None, block: bool = True,
            timeout: Optional[float] = None, **kwargs: Any) -> Iterator[ContinuousBatchingManager]:  # fmt: skip
    """A manager that runs inside a with statement."""
    manager = ContinuousBatchingManager(model, generation_config, **kwargs)
    manager.start()
    try:
        yield manager
    finally:
        manager.stop(block=block, timeout=timeout)


def generate_batch(model: "Model", inputs: Sequence[Any], generation_config: Optional[GenerationConfig] = None,
                   record_timestamps: bool = False, progress_bar: bool = True, **kwargs: Any) -> dict[str, GenerationOutput]:  # fmt: skip
    """Model.generate_batch: failed ones are missing, with a logged line."""
    for name in ("allow_block_sharing", "q_padding_interval_size", "kv_padding_interval_size", "use_async_batching",
                 "max_cached_graphs", "manual_eviction", "max_queue_size"):  # fmt: skip
        kwargs.pop(name, None)
    rows = [arrays.rows(ids, "inputs")[0] for ids in inputs]
    if not rows:
        return {}
    found: dict[str, GenerationOutput] = {}
    with running(model, generation_config, **kwargs) as manager:
        names = [manager.add_request(row, record_timestamps=record_timestamps) for row in rows]
        try:
            while len(found) < len(names):
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
