"""Drafters and observers in Python: what proposes tokens, and what looks on.

    model.generate(ids, drafter=Pairs(), do_sample=False)
    model.generate(ids, observers=[Doubts()])

They run on the engine's thread, as processors do; processors.py has how.
"""

from __future__ import annotations

from typing import Any, Sequence

from . import _core, arrays
from ._abi import ffi
from .errors import UsageError
from .processors import Call, Part, _call_of, describe

__all__ = ["Drafter", "Observer"]

DRAFTER = "org.cadenza.python.drafter"
OBSERVERS = "org.cadenza.python.observers"  # and with the scores, and with each processor's: copies of rows that cost time
_DEPTHS = ("", "-scores", "-stages")


class Drafter:
    """Proposes what comes next: ``__call__(input_ids, room) -> ids``. A wrong guess costs time and changes nothing.

    input_ids: (length,) int64, a row so far; room: the most ids that can be used. The answer: ids in a list or an array, none of
    them too. A plain function will do.
    """

    def __call__(self, input_ids: Any, room: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __call__")

    def judged(self, n_proposed: int, n_accepted: int) -> None:
        """The first n_accepted of the last proposal were right."""


class Observer:
    """Looks on and changes nothing: override what you want to see. What a method raises is logged with its traceback, and the
    observer is not called again for this request.

    row counts the request's rows; input_ids: (length,) int64, that row so far; before, after: (vocabulary,) float32, copies. scores and
    stage are told of histories that may be rejected too: drafts, candidates of a search.
    """

    def begin(self) -> None: ...

    def stage(self, row: int, input_ids: Any, by: str, before: Any, after: Any) -> None:
        """The processor `by` is done with a row of scores. Costs a copy of the row for each processor."""

    def scores(self, row: int, input_ids: Any, before: Any, after: Any) -> None:
        """All processors are done: before has the model's logits, after the scores."""

    def token(self, row: int, input_ids: Any, token: int) -> None:
        """A token was appended; input_ids has it."""

    def stop(self, row: int, input_ids: Any, reason: str) -> None:
        """The row ended: "eos", "length", "time", "string", or a criterion's own word."""

    def rewind(self, row: int, input_ids: Any, n: int) -> None:
        """The row's last n tokens were taken back."""

    def reorder(self, parents: list[int]) -> None:
        """Every row r became a copy of the former row parents[r]."""

    def end(self) -> None: ...


class Drafting(Call):
    """The drafter of a request."""

    def __init__(self, drafter: Any, kind: str, root: Call) -> None:
        super().__init__([], [], kind, root)
        self.drafter = drafter
        self.proposal: Any = ffi.NULL

    def propose(self, step: Any, draft: Any) -> None:
        history = list(ffi.unpack(draft.history.at, draft.history.len)) if draft.history.len else []
        answer = self.drafter(_row(history, self.torch), int(draft.room))
        tokens = [] if answer is None else arrays.rows(answer, "a drafter's answer")[0]
        tokens = tokens[: draft.room]
        if any(not 0 <= token < 2**31 for token in tokens):
            raise UsageError(f"a drafter proposed {tokens}: expected ids of the vocabulary")
        self.proposal = ffi.new("int32_t[]", tokens)
        draft.tokens.at, draft.tokens.len = self.proposal, len(tokens)

    def judge(self, _step: Any, n_proposed: int, n_accepted: int) -> None:
        judged = getattr(self.drafter, "judged", None)
        if judged is not None:
            judged(int(n_proposed), int(n_accepted))


def _row(ids: list[int], torch: bool) -> Any:
    return arrays.ids_like([ids], arrays.TORCH if torch else arrays.NUMPY)[0]


class Observing(Call):
    """An observer of a request."""

    def __init__(self, observer: Any, kind: str, root: Call) -> None:
        super().__init__([], [], kind, root)
        self.observer = observer

    def plugin(self) -> str:
        for name in ("stage", "scores"):
            if getattr(type(self.observer), name, None) is not getattr(Observer, name):
                return OBSERVERS + ("-stages" if name == "stage" else "-scores")
        return OBSERVERS

    def tell(self, step: Any, name: str, *args: Any) -> int:
        """A status. An observer's failure is not the request's."""
        try:
            return self.guarded_alone(step, getattr(self.observer, name), *args)
        except BaseException:
            _core.logger.exception("%s.%s failed: it is not called again for this request", type(self.observer).__name__, name)
            return 9

    def guarded_alone(self, _step: Any, function: Any, *args: Any) -> int:
        from .processors import _thread

        _thread.call = self
        try:
            self.root.context.run(function, *args)
            return 0
        finally:
            _thread.call = None

    def rows(self, step: Any) -> list[tuple[int, Any]]:
        return [(int(step.row_index[i]), _row(_ids(step.input_ids[i]), self.torch)) for i in range(step.n_rows)]

    def scores(self, step: Any, name: str, seen: Any, *more: Any) -> int:
        status = 0
        for i, (row, ids) in enumerate(self.rows(step)):
            before, after = (_floats(rows[i], int(seen.n_vocab), self.torch) for rows in (seen.before, seen.after))
            status = status or self.tell(step, name, row, ids, *more, before, after)
        return status


def _ids(ids: Any) -> list[int]:
    return list(ffi.unpack(ids.at, ids.len)) if ids.len else []


def _floats(at: Any, n: int, torch: bool) -> Any:
    import numpy

    made = numpy.frombuffer(ffi.buffer(at, 4 * n), numpy.float32).copy()
    return arrays.like(made, arrays.TORCH if torch else arrays.NUMPY)


# -- the engine's calls ------------------------------------------------------------------------------------------------


@_core.callback("cdz_status(*)(cdz_decoder *, const cdz_step *, cdz_draft *)", error=13)
def _propose(_dec: Any, step: Any, draft: Any) -> int:
    call: Any = _call_of(step)
    status: int = call.guarded(step, call.propose, draft)
    return status


@_core.callback("cdz_status(*)(cdz_decoder *, const cdz_step *, uint32_t, uint32_t, uint32_t)", error=13)
def _judged(_dec: Any, step: Any, _row_index: int, n_proposed: int, n_accepted: int) -> int:
    call: Any = _call_of(step)
    status: int = call.guarded(step, call.judge, n_proposed, n_accepted)
    return status


@_core.callback("cdz_status(*)(const cdz_step *, void **)", error=13)
def _begin(step: Any, _shared: Any) -> int:
    call: Any = _call_of(step)
    status: int = call.tell(step, "begin")
    return status


@_core.callback("cdz_status(*)(const cdz_step *, const cdz_plugin_base *, const cdz_seen *)", error=13)
def _stage(step: Any, by: Any, seen: Any) -> int:
    call: Any = _call_of(step)
    status: int = call.scores(step, "stage", seen, _core.text(by.id))
    return status


@_core.callback("cdz_status(*)(const cdz_step *, const cdz_seen *)", error=13)
def _scores(step: Any, seen: Any) -> int:
    call: Any = _call_of(step)
    status: int = call.scores(step, "scores", seen)
    return status


@_core.callback("cdz_status(*)(const cdz_step *, int32_t)", error=13)
def _token(step: Any, token: int) -> int:
    call: Any = _call_of(step)
    status: int = call.tell(step, "token", *call.rows(step)[0], int(token))
    return status


_REASONS = {1: "eos", 2: "length", 3: "time", 4: "string", 5: "custom"}


@_core.callback("cdz_status(*)(const cdz_step *, const cdz_stop *)", error=13)
def _stop(step: Any, stop: Any) -> int:
    call: Any = _call_of(step)
    named = int(stop.reason) == 5 and stop.text.len  # a criterion's own word
    word = bytes(ffi.buffer(stop.text.at, stop.text.len)).decode("utf-8", "replace") if named else _REASONS.get(int(stop.reason), "")
    status: int = call.tell(step, "stop", *call.rows(step)[0], word)
    return status


@_core.callback("cdz_status(*)(const cdz_step *, uint32_t)", error=13)
def _rewind(step: Any, n: int) -> int:
    call: Any = _call_of(step)
    status: int = call.tell(step, "rewind", *call.rows(step)[0], int(n))
    return status


@_core.callback("cdz_status(*)(const cdz_step *, const uint32_t *)", error=13)
def _reorder(step: Any, parents: Any) -> int:
    call: Any = _call_of(step)
    status: int = call.tell(step, "reorder", list(ffi.unpack(parents, step.n_rows)))
    return status


@_core.callback("void(*)(const cdz_step *)")
def _end(step: Any) -> None:
    call: Any = _call_of(step)
    call.tell(step, "end")


def descriptors(keep: list[Any]) -> list[Any]:
    """Those of this module's plugins."""
    drafter = describe(keep, "cdz_drafter", 4, DRAFTER)
    drafter.propose, drafter.judged = _propose, _judged
    made = [drafter]
    for depth, ending in enumerate(_DEPTHS):
        observer = describe(keep, "cdz_observer", 5, OBSERVERS + ending)
        observer.begin, observer.token, observer.stop, observer.end = _begin, _token, _stop, _end
        observer.rewind, observer.reorder = _rewind, _reorder
        if depth >= 1:
            observer.scores = _scores
        if depth >= 2:
            observer.stage = _stage
        made.append(observer)
    return made


def drafter_part(drafter: Any, kind: str, root: Call) -> Part:
    if not callable(drafter):
        raise UsageError(f"drafter: {type(drafter).__name__} cannot be called; expected a function of (input_ids, room), or an id")
    return Part("drafter", DRAFTER, "", Drafting(drafter, kind, root))


def observer_parts(observers: Sequence[Any], kind: str, root: Call) -> list[Part]:
    made = []
    for observer in observers:
        if not isinstance(observer, Observer):
            raise UsageError(f"observers: expected cadenza.Observer objects or ids, found {type(observer).__name__}")
        call = Observing(observer, kind, root)
        made.append(Part("observers", call.plugin(), "", call))
    return made
