"""The library: where it lies, its runtimes, and how its errors and objects become Python's.

A runtime is made when the first model is opened and lives as long as the process: the operating system closes it. What is
opened in it is freed when nothing refers to it any more, but not at the interpreter's exit, and not in a forked child.
"""

from __future__ import annotations

import logging
import os
import pathlib
import sys
import threading
import weakref
from typing import Any, Callable

from . import errors
from ._abi import ffi

logger = logging.getLogger("cadenza")

_lock = threading.RLock()
_lib: Any = None
_runtimes: dict[tuple[Any, ...], "Runtime"] = {}


def _library_path() -> str:
    named = os.environ.get("CADENZA_LIBRARY")
    if named:
        return named
    here = pathlib.Path(__file__).resolve().parent / "lib"
    for name in ("libcadenza.so.0", "libcadenza.so"):
        if (here / name).exists():
            return str(here / name)
    raise ImportError(
        f"libcadenza.so.0 is not in {here}: the package was not installed by pip; "
        "CADENZA_LIBRARY may name the library"
    )


def library() -> Any:
    """The library, loaded with the first call."""
    global _lib
    if _lib is None:
        with _lock:
            if _lib is None:
                _lib = ffi.dlopen(_library_path())
    return _lib


def version() -> str:
    return text(library().cdz_version())


def text(at: Any) -> str:
    """A NUL-terminated UTF-8 string of the library; "" for NULL."""
    return ffi.string(at).decode("utf-8", "replace") if at else ""


def new_struct(name: str, **fields: Any) -> Any:
    """A struct that begins with its size."""
    struct = ffi.new(name + " *")
    struct.size = ffi.sizeof(name)
    for field, value in fields.items():
        setattr(struct, field, value)
    return struct


def fail(status: int, err: Any) -> errors.CadenzaError:
    """The exception of a status."""
    sentence = text(err.text) if err is not None else ""
    return errors.of(int(status), sentence)


def check(status: int, err: Any) -> None:
    if status != 0:
        raise fail(status, err)


def new_error() -> Any:
    return ffi.new("cdz_error *")


def take_text(at: Any) -> str:
    """An allocated string, freed."""
    try:
        return text(at)
    finally:
        library().cdz_free(at)


def on_delete(owner: Any, free: Callable[[Any], None], pointer: Any) -> weakref.finalize[Any, Any]:
    """Frees a pointer of the library with its owner."""
    pid = os.getpid()

    def run() -> None:
        if os.getpid() == pid:
            free(pointer)

    finalizer = weakref.finalize(owner, run)
    finalizer.atexit = False
    return finalizer


def callback(signature: str, error: Any = None) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: a function that C may call, "result(*)(arguments)". error: what it returns after an exception."""
    made: Callable[[Callable[..., Any]], Any] = ffi.callback(signature, error=error)
    return made


_LEVELS = {0: logging.DEBUG, 1: logging.INFO, 2: logging.WARNING}


@callback("void(*)(void *, cdz_log_level, const char *, const char *)")
def _log(_user: Any, level: int, plugin: Any, line: Any) -> None:
    logger.log(_LEVELS.get(int(level), logging.INFO), "%s: %s", text(plugin), text(line))


class Runtime:
    """One engine: a thread, its pool, memory for KV caches, and the plugins it knows."""

    def __init__(self, **options: Any) -> None:
        lib = library()
        keep = []
        struct = new_struct("cdz_options")
        for name, value in options.items():
            if value is None:
                continue
            if isinstance(value, str):
                value = ffi.new("char[]", value.encode())
                keep.append(value)
            setattr(struct, name, value)
        struct.log = _log
        out, err = ffi.new("cdz_runtime **"), new_error()
        check(lib.cdz_open(struct, out, err), err)
        self.pointer = out[0]
        self.pid = os.getpid()
        self.descriptors: Any = None  # of the plugins in Python (processors.py)
        self.pipelines: dict[tuple[str, ...], list[tuple[list[int], Any]]] = {}  # idle ones that have such plugins
        self.forward: Any = None  # the pipeline of forward passes (forward.py)

    def check(self) -> None:
        """Refuses a child that was forked after the runtime was opened."""
        if os.getpid() != self.pid:
            raise errors.ForkError(
                f"this process was forked from {self.pid}, where the model was loaded; its engine thread "
                "did not come along: load the model in the child, or start processes by spawn or forkserver"
            )


def runtime(**options: Any) -> Runtime:
    """The process's runtime of these options, opened with the first call."""
    key = tuple(sorted((k, v) for k, v in options.items() if v is not None))
    with _lock:
        if key not in _runtimes:
            _runtimes[key] = Runtime(**options)
        return _runtimes[key]


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    _runtimes.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)


class Result:
    """A result of the library; freed when nothing refers to it or to its tensors any more."""

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer
        on_delete(self, library().cdz_result_free, pointer)

    def rows(self) -> int:
        return int(library().cdz_result_rows(self.pointer))

    def _ids(self, function: Any, row: int) -> list[int]:
        n = ffi.new("uint32_t *")
        at = function(self.pointer, row, n)
        return list(ffi.unpack(at, n[0])) if n[0] else []

    def sequence(self, row: int) -> list[int]:
        return self._ids(library().cdz_result_sequence, row)

    def new_ids(self, row: int) -> list[int]:
        return self._ids(library().cdz_result_ids, row)

    def text(self, row: int) -> str:
        return text(library().cdz_result_text(self.pointer, row))

    def finish_reason(self, row: int) -> str:
        return text(library().cdz_result_finish_reason(self.pointer, row))

    def json(self) -> str:
        return text(library().cdz_result_json(self.pointer))

    def tensors(self) -> dict[str, tuple[str, tuple[int, ...], Any]]:
        """Name: (type, shape, pointer)."""
        out, n, err = ffi.new("cdz_result_tensor **"), ffi.new("size_t *"), new_error()
        check(library().cdz_result_tensors(self.pointer, out, n, err), err)
        try:
            return {
                text(t.name): (text(t.type), tuple(ffi.unpack(t.shape, t.n_dims)) if t.n_dims else (), t.data)
                for t in ffi.unpack(out[0], n[0])
            }
        finally:
            library().cdz_free(out[0])

    def array(self, tensor: tuple[str, tuple[int, ...], Any]) -> Any:
        """A writable NumPy array over the result's own memory, which it keeps."""
        import numpy

        kind, shape, at = tensor
        dtype = {"f32": numpy.float32, "i32": numpy.int32, "i64": numpy.int64, "bool": numpy.bool_}[kind]
        count = 1
        for size in shape:
            count *= size
        if count == 0:
            return numpy.empty(shape, dtype)
        kept = ffi.gc(ffi.cast("char *", at), lambda _at, owner=self: None)
        buffer = ffi.buffer(kept, count * numpy.dtype(dtype).itemsize)
        return numpy.frombuffer(buffer, dtype).reshape(shape)
