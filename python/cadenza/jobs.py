"""Many prompts over several processes: an object that answers batches of rows in any pool, and a job that survives its workers.

    answer = cadenza.jobs.Answers("my-model", do_sample=False, max_new_tokens=40)
    answer([{"prompt": "river (noun):"}])                               # here
    concurrent.futures.ProcessPoolExecutor(2).map(answer, batches)      # in a pool
    dask.bag.from_sequence(rows).map_partitions(answer)                 # in Dask; cadenza.ray.map_batches in Ray

    for row in cadenza.jobs.run(rows, "my-model", out="answers.jsonl", workers=2, max_new_tokens=40): ...

An answer hangs on its row and the parameters alone: not on the batch, the number of workers, or how often a worker died.
"""

from __future__ import annotations

import collections
import fcntl
import glob
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from multiprocessing import connection
from typing import IO, TYPE_CHECKING, Any, Iterable, Iterator, Optional, Union

from .errors import CadenzaError, InputError, StateError, UsageError

if TYPE_CHECKING:
    from .model import Model

__all__ = ["Answers", "JobError", "run"]

_OPENING = ("quantize", "activations", "head_screen", "device", "threads", "kv_cache", "precision", "determinism", "revision",
            "cache_dir")  # fmt: skip


class JobError(CadenzaError, RuntimeError):
    """A row failed, or killed its worker too often; the sentence names it."""


# -- models of a process -----------------------------------------------------------------------------------------------

_models: dict[str, "Model"] = {}
_owner = 0
_claimed: Optional[IO[str]] = None  # the lock of the node that this process runs on


def _opened(name: str, options: dict[str, Any]) -> "Model":
    """The process's model of this name and options."""
    global _owner
    if _owner != os.getpid():  # a forked child has no engine
        _models.clear()
        _owner = os.getpid()
    key = json.dumps([name, sorted(options.items())])
    if key not in _models:
        from .model import Model

        _models[key] = Model.from_pretrained(name, **options)
    return _models[key]


def nodes() -> list[list[int]]:
    """The processors of each NUMA node, of those that this process may use. One node where the system tells of none."""
    mine = os.sched_getaffinity(0)
    found = []
    for path in sorted(glob.glob("/sys/devices/system/node/node[0-9]*/cpulist")):
        with open(path, encoding="ascii") as file:
            ranges = [part.split("-") for part in file.read().strip().split(",") if part]
        cpus = sorted(mine & {cpu for ends in ranges for cpu in range(int(ends[0]), int(ends[-1]) + 1)})
        if cpus:
            found.append(cpus)
    return found or [sorted(mine)]


def _bind() -> None:
    """Binds the process to the first NUMA node that no other such process has; to none if all are taken."""
    global _claimed
    if _claimed is not None:
        return
    for number, cpus in enumerate(nodes()):
        file = open(os.path.join(tempfile.gettempdir(), f"cadenza-node-{os.getuid()}-{number}"), "w", encoding="ascii")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            continue
        _claimed = file  # until the process ends
        os.sched_setaffinity(0, cpus)
        return


# -- batches -----------------------------------------------------------------------------------------------------------


class Answers:
    """Answers batches of rows: dicts in a list, or a dict of columns (Ray, pandas); the same comes back with columns more.

    model: what from_pretrained takes, its options among the keywords (quantize, threads, ...); opened once in a process, its
    weights mapped, so processes of a machine share their pages. prompt: the column of texts, or of ids (lists, arrays).
    output: the column of texts to write; output + "_ids" has the new ids. id: the column that a sampled row's seed is made of,
    with `seed`. numa: binds the process to a NUMA node that no other one has. Further keywords: generation parameters.
    Raises JobError for a row that cannot be answered, ValueError for wrong arguments. Can be pickled.
    """

    def __init__(self, model: Union[str, "os.PathLike[str]"], *, prompt: str = "prompt", output: str = "generated",
                 id: Optional[str] = None, seed: int = 0, numa: bool = False, **options: Any) -> None:  # fmt: skip
        if not isinstance(model, (str, os.PathLike)):
            raise UsageError(f"model: expected a folder, a file or an id that each process can open, found {type(model).__name__}")
        if options.get("num_return_sequences") not in (None, 1):
            raise UsageError("num_return_sequences: a row has one answer; give the row several times, each with its id")
        self.model = os.fspath(model)
        self.prompt, self.output, self.id, self.seed, self.numa = prompt, output, id, int(seed), numa
        self.opening = {name: options.pop(name) for name in _OPENING if name in options}
        self.options = options
        if options.get("do_sample") and id is None:
            raise UsageError("do_sample: name the column that a row's seed is made of, as id=, so that a row drawn again is the same")

    def __call__(self, rows: Any) -> Any:
        if isinstance(rows, dict):
            return self._columns(rows)
        rows = list(rows)
        answers = self._answer(rows)
        return [{**row, self.output: text, self.output + "_ids": ids} for row, (text, ids) in zip(rows, answers)]

    def _columns(self, columns: dict[str, Any]) -> dict[str, Any]:
        import numpy

        names = [name for name in (self.prompt, self.id) if name is not None and name in columns]
        n = len(next(iter(columns.values()), ()))
        answers = self._answer([{name: columns[name][i] for name in names} for i in range(n)])
        ids = numpy.empty(n, object)
        ids[:] = [numpy.array(found, numpy.int64) for _, found in answers]
        return {**columns, self.output: numpy.array([text for text, _ in answers], object), self.output + "_ids": ids}

    def _answer(self, rows: list[dict[str, Any]]) -> list[tuple[str, list[int]]]:
        """(text, new ids) of each row."""
        if self.numa:
            _bind()
        model = _opened(self.model, self.opening)
        tokenizer = _tokenizer(model)
        found: dict[str, Any] = {}
        with model.continuous_batching_context_manager(**self.options) as manager:
            for number, row in enumerate(rows):
                self._add(manager, tokenizer, number, row)
            while len(found) < len(rows):
                result = manager.get_result(timeout=1)
                if result is not None:
                    found[result.request_id] = result
        answers = []
        for number in range(len(rows)):
            result = found[str(number)]
            if not result.is_finished():
                raise JobError(f"row {number} of the batch: {result.error}")
            ids = list(result.generated_tokens)
            answers.append((tokenizer.decode(ids, skip_special_tokens=True) if tokenizer else "", ids))
        return answers

    def _add(self, manager: Any, tokenizer: Any, number: int, row: dict[str, Any]) -> None:
        if self.prompt not in row:
            raise JobError(f"row {number} of the batch has no column {self.prompt!r}: found {sorted(row)}")
        given = row[self.prompt]
        if isinstance(given, str):
            if tokenizer is None:
                raise JobError(f"row {number} of the batch is a text, and {self.model} has no tokenizer: give ids")
            given = tokenizer.encode(given)
        seed = {}
        if self.options.get("do_sample"):
            assert self.id is not None
            if self.id not in row:
                raise JobError(f"row {number} of the batch has no column {self.id!r}, which its seed is made of")
            seed["seed"] = seed_of(self.seed, row[self.id])
        try:
            manager.add_request(given, request_id=str(number), **seed)
        except ValueError as error:
            raise JobError(f"row {number} of the batch: {error}") from error


def _tokenizer(model: "Model") -> Any:
    from .tokenizer import Tokenizer

    try:
        return Tokenizer(model)
    except StateError:  # its prompts are ids, and its answers
        return None


def seed_of(seed: int, id: Any) -> int:
    """The seed of a row, of the job's and the row's id."""
    value = id.item() if hasattr(id, "item") else id
    return int.from_bytes(hashlib.blake2b(f"{seed}:{value}".encode(), digest_size=8).digest(), "little") >> 1


# -- a job over workers ------------------------------------------------------------------------------------------------


class _Worker:
    """A process that answers chunks, one at a time."""

    def __init__(self, answers: Answers) -> None:
        ours, theirs = connection.Pipe()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cadenza.jobs", str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environment,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        theirs.close()
        self.wire = ours
        self.chunk: Optional[int] = None
        try:
            self.wire.send(answers)
        except OSError:  # it died at once: its end is seen when its first chunk is
            pass

    def give(self, number: int, rows: list[dict[str, Any]]) -> None:
        self.chunk = number
        try:
            self.wire.send(rows)
        except OSError:
            pass

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.wire.close()


class _Job:
    def __init__(self, answers: Answers, rows: Iterator[dict[str, Any]], workers: int, size: int, retries: int) -> None:
        self.answers, self.rows, self.size, self.retries = answers, rows, size, retries
        self.n_workers = workers
        self.workers: list[_Worker] = []
        self.waiting: collections.deque[int] = collections.deque()  # chunks to be given again
        self.chunks: dict[int, list[dict[str, Any]]] = {}  # given out, or to be
        self.tries: collections.Counter[int] = collections.Counter()
        self.done: dict[int, list[dict[str, Any]]] = {}  # answered, before their turn
        self.n_read = 0
        self.first = 0  # the first row's number, in sentences

    def answered(self) -> Iterator[list[dict[str, Any]]]:
        """Chunks of answered rows, in the order of the rows."""
        turn = 0
        try:
            while True:
                self._give_out()
                while turn in self.done:
                    yield self.done.pop(turn)
                    turn += 1
                if not self.chunks:
                    if self._next() is None:
                        return
                    continue
                self._hear()
        finally:
            for worker in self.workers:
                worker.end()

    def _next(self) -> Optional[int]:
        """A chunk that nobody has, or None."""
        if self.waiting:
            return self.waiting[0]
        rows = list(itertools.islice(self.rows, self.size))
        if not rows:
            return None
        self.chunks[self.n_read] = rows
        self.waiting.append(self.n_read)
        self.n_read += 1
        return self.waiting[0]

    def _give_out(self) -> None:
        ahead = 4 * self.n_workers  # chunks that wait for their turn: a slow one may not fill the memory
        while len(self.done) < ahead:
            idle = next((worker for worker in self.workers if worker.chunk is None), None)
            if idle is None and len(self.workers) >= self.n_workers:
                return
            number = self._next()
            if number is None:
                return
            if idle is None:
                idle = _Worker(self.answers)
                self.workers.append(idle)
            idle.give(self.waiting.popleft(), self.chunks[number])

    def _hear(self) -> None:
        busy = {worker.wire: worker for worker in self.workers if worker.chunk is not None}
        for wire in connection.wait(list(busy)):
            worker = busy[wire]  # type: ignore[index]
            number = worker.chunk
            assert number is not None
            try:
                kind, value = worker.wire.recv()
            except (EOFError, OSError):
                self._died(worker, number)
                continue
            if kind == "failed":
                raise JobError(f"{self._where(number)}: {value}")
            worker.chunk = None
            self.done[number] = value
            del self.chunks[number]

    def _died(self, worker: _Worker, number: int) -> None:
        self.workers.remove(worker)
        status = worker.process.wait()
        worker.end()
        self.tries[number] += 1
        if self.tries[number] > self.retries:
            raise JobError(f"{self._where(number)}: {self.tries[number]} workers died of them, the last with status {status}")
        self.waiting.appendleft(number)

    def _where(self, number: int) -> str:
        first = self.first + number * self.size
        return f"rows {first} to {first + len(self.chunks[number]) - 1}"


def run(rows: Iterable[dict[str, Any]], model: Union[str, "os.PathLike[str]"], *, out: Union[str, "os.PathLike[str]", None] = None,
        workers: Union[int, str] = 1, chunk: int = 32, retries: int = 3, **options: Any) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Answers rows in worker processes, in the order of the rows; see :class:`Answers` for model and options.

    rows: dicts, read as they are needed. workers: how many, or "numa": one for each NUMA node, bound to it. chunk: rows that a
    worker is given together. A worker that dies is replaced, and its chunk given again, `retries` times; no row is lost or
    answered twice. out: a file of JSON lines, one a row in their order; if it is there, its rows are not computed again but
    read (a line cut in the middle is dropped), so a job that was stopped goes on. The rows must be the same then: ValueError.
    Raises JobError for a row that cannot be answered, after the rows before its chunk were written.
    """
    if isinstance(workers, str) and workers != "numa":
        raise UsageError(f'workers: expected a number or "numa", found {workers!r}')
    n_workers = len(nodes()) if isinstance(workers, str) else int(workers)
    if n_workers < 1 or chunk < 1 or retries < 0:
        raise UsageError(f"workers {workers} and chunk {chunk}: expected at least 1; retries {retries}: at least 0")
    if isinstance(workers, str):
        options["numa"] = True
    elif "threads" not in options:
        options["threads"] = max(1, len(os.sched_getaffinity(0)) // n_workers)
    return _run(iter(rows), Answers(model, **options), None if out is None else os.fspath(out), n_workers, chunk, retries)


def _run(rows: Iterator[dict[str, Any]], answers: Answers, out: Optional[str], workers: int, size: int, retries: int) -> Iterator[dict[str, Any]]:
    written = 0
    if out is not None and os.path.exists(out):
        for row in _resumed(out, rows):
            yield row
            written += 1
    job = _Job(answers, rows, workers, size, retries)
    job.first = written
    file = open(out, "a", encoding="utf-8") if out is not None else None
    try:
        for chunk in job.answered():
            if file is not None:
                file.write("".join(json.dumps(row, default=_plain) + "\n" for row in chunk))
                file.flush()
            yield from chunk
    finally:
        if file is not None:
            file.close()


def _resumed(out: str, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows that a file has already; what is behind its last whole line is cut off."""
    with open(out, "rb+") as file:
        whole = 0
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            try:
                kept = json.loads(line)
            except ValueError:
                raise InputError(f"{out}:{number}: expected the JSON of an answered row") from None
            given = next(rows, None)
            asked = None if given is None else json.loads(json.dumps(given, default=_plain))
            if asked is None or not isinstance(kept, dict) or any(kept.get(name) != value for name, value in asked.items()):
                raise UsageError(f"{out}:{number}: not the answer to row {number - 1} of this job: give another file, or remove it")
            whole += len(line)
            yield kept
        file.truncate(whole)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise UsageError(f"a row holds {type(value).__name__}: expected what JSON has")


def _work(descriptor: int) -> None:
    """The life of a worker: the object, then chunks, until the job ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the job, which ends its workers
    wire: Any = connection.Connection(descriptor)
    try:
        answers = wire.recv()
        while True:
            rows = wire.recv()
            try:
                wire.send(("answered", answers(rows)))
            except Exception as error:
                wire.send(("failed", str(error) or type(error).__name__))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


if __name__ == "__main__":
    from cadenza.jobs import _work as work  # the module that the pickled object is of

    work(int(sys.argv[1]))
