"""The exceptions of the package.

Every failure of the library is a :class:`CadenzaError` with one sentence: what, where, what was found and what was expected.
Each class is also the built-in exception that says the same, so that code written for transformers catches what it caught.
"""

from __future__ import annotations

__all__ = [
    "CadenzaError",
    "UsageError",
    "InputError",
    "ProbabilityError",
    "FileError",
    "UnsupportedError",
    "LimitError",
    "OutOfMemoryError",
    "CancelledError",
    "DeadlineError",
    "PluginError",
    "StateError",
    "DeniedError",
    "NotFoundError",
    "InternalError",
    "ForkError",
]


class CadenzaError(Exception):
    """A call failed. ``str(error)`` is the library's sentence."""


class UsageError(CadenzaError, ValueError):
    """An argument, a parameter or a key is wrong."""


class InputError(CadenzaError, ValueError):
    """A file, a prompt or a document is wrong."""


class ProbabilityError(InputError, RuntimeError):
    """No token can be drawn: the processors left none, or numbers that are none."""


class FileError(CadenzaError, OSError):
    """A file cannot be read or written."""


class UnsupportedError(CadenzaError, NotImplementedError):
    """This version does not support what was asked for."""


class LimitError(CadenzaError, RuntimeError):
    """A limit is reached: memory, the queue, a budget."""


class OutOfMemoryError(CadenzaError, MemoryError):
    """There is no memory left."""


class CancelledError(CadenzaError, RuntimeError):
    """The request was cancelled."""


class DeadlineError(CadenzaError, TimeoutError):
    """The request's time is over."""


class PluginError(CadenzaError, RuntimeError):
    """A plugin broke its contract, or failed."""


class StateError(CadenzaError, RuntimeError):
    """The call is not allowed now: the object is closed, or the runtime takes no more requests."""


class DeniedError(CadenzaError, PermissionError):
    """Trust, the sandbox or a capability forbids it."""


class NotFoundError(CadenzaError, OSError):
    """There is no such file, model, plugin or request."""


class InternalError(CadenzaError, RuntimeError):
    """A broken invariant of the library itself: please report it."""


class ForkError(StateError):
    """The process was forked after the model was loaded. The child has no engine thread: load the model in it anew."""


_NOTHING_TO_DRAW = "probabilities hold nan, inf, a negative value or only zeros"


def of(code: int, sentence: str) -> CadenzaError:
    """The exception of a status and its sentence."""
    kind = BY_CODE.get(code, InternalError)
    if kind is InputError and _NOTHING_TO_DRAW in sentence:
        kind = ProbabilityError
    return kind(sentence or f"status {code}")


BY_CODE: dict[int, type[CadenzaError]] = {
    1: OutOfMemoryError,
    2: InputError,
    3: UsageError,
    4: FileError,
    5: UnsupportedError,
    6: LimitError,
    7: CancelledError,
    8: DeadlineError,
    9: PluginError,
    10: StateError,
    11: DeniedError,
    12: NotFoundError,
    13: InternalError,
}
