"""Jobs over processes: in the order of the rows, whoever died; pools, Dask and Ray with the same object."""

import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import random
import signal

import pytest

import cadenza
import cadenza.jobs as jobs
from conftest import GOLDEN

MODEL = str(GOLDEN / "gpt2")
OPTIONS = dict(max_new_tokens=3, do_sample=False, eos_token_id=None)


def rows_of(n):
    return [{"prompt": [5 + i % 90, 6, 7 + i % 50], "name": f"row {i}"} for i in range(n)]


@pytest.fixture
def started(monkeypatch):
    """The workers of the jobs of a test."""
    found = []

    class Noted(jobs._Worker):
        def __init__(self, answers):
            super().__init__(answers)
            found.append(self)

    monkeypatch.setattr(jobs, "_Worker", Noted)
    return found


def test_a_job_of_many_survives_killed_workers(tmp_path, started):
    """10,000 prompts; workers are killed while they answer: every row once, in order, the same as without."""
    rows = rows_of(10000)
    model = cadenza.Model.from_pretrained(MODEL)
    want = {
        json.dumps(row["prompt"]): row_ids[3:]
        for row, row_ids in zip(rows[:450], model.generate([r["prompt"] for r in rows[:450]], **OPTIONS))
    }
    assert len({json.dumps(row["prompt"]) for row in rows}) == 450
    dice, killed, got = random.Random(1), 0, []
    for row in jobs.run(rows, MODEL, out=tmp_path / "answers.jsonl", workers=2, chunk=250, **OPTIONS):
        got.append(row)
        if len(got) in (1, 3001, 6001):
            busy = [worker for worker in started if worker.process.poll() is None and worker.chunk is not None]
            dice.choice(busy).process.kill()
            killed += 1
    assert killed == 3 and len(started) == 5
    assert [row["name"] for row in got] == [row["name"] for row in rows]
    assert all(row["generated_ids"] == want[json.dumps(row["prompt"])] for row in got)
    assert [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()] == got
    assert all(worker.process.poll() is not None for worker in started)


def test_answers_hang_on_the_row_alone():
    rows = rows_of(24)
    options = dict(id="name", seed=3, do_sample=True, max_new_tokens=5, eos_token_id=None)
    one = list(jobs.run(rows, MODEL, chunk=24, **options))
    two = list(jobs.run(rows, MODEL, workers=2, chunk=5, **options))
    assert one == two and len({tuple(row["generated_ids"]) for row in one}) > 12
    backwards = jobs.Answers(MODEL, **options)(rows[::-1])
    assert backwards[::-1] == one
    assert jobs.Answers(MODEL, **{**options, "seed": 4})(rows) != one
    with pytest.raises(ValueError, match="id="):
        jobs.Answers(MODEL, do_sample=True)


def test_a_stopped_job_goes_on(tmp_path):
    out, rows = tmp_path / "answers.jsonl", rows_of(40)
    want = list(jobs.run(rows, MODEL, out=out, chunk=8, **OPTIONS))
    whole = out.read_bytes()
    lines = whole.splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:13]) + lines[13][:20])  # the power failed
    assert list(jobs.run(rows, MODEL, out=out, chunk=8, **OPTIONS)) == want and out.read_bytes() == whole
    with pytest.raises(ValueError, match="answers.jsonl:1: not the answer to row 0"):
        list(jobs.run(rows[1:], MODEL, out=out, **OPTIONS))
    out.write_text("no json\n")
    with pytest.raises(ValueError, match="answers.jsonl:1"):
        list(jobs.run(rows, MODEL, out=out, **OPTIONS))


def test_a_job_that_is_left_ends_its_workers(started):
    running = jobs.run(rows_of(200), MODEL, workers=2, chunk=10, **OPTIONS)
    next(running)
    running.close()
    assert len(started) == 2 and [worker.process.poll() for worker in started] == [-signal.SIGKILL] * 2


def test_rows_that_cannot_be_answered(tmp_path, started):
    rows = rows_of(12)
    rows[9] = {"prompt": [5, 10**6]}
    out = tmp_path / "answers.jsonl"
    with pytest.raises(jobs.JobError, match="rows 8 to 11: row 1 of the batch: input_ids: id 1000000"):
        list(jobs.run(rows, MODEL, out=out, chunk=4, **OPTIONS))
    assert len(out.read_text().splitlines()) == 8
    with pytest.raises(jobs.JobError, match="no column 'prompt': found \\['x'\\]"):
        list(jobs.run([{"x": 1}], MODEL))
    with pytest.raises(jobs.JobError, match="no tokenizer: give ids"):
        list(jobs.run([{"prompt": "a"}], MODEL))
    with pytest.raises(jobs.JobError, match="no such folder"):
        list(jobs.run(rows, "/no/such/model"))

    class Dies(jobs._Worker):
        def give(self, number, rows):
            self.process.kill()
            super().give(number, rows)

    jobs._Worker = Dies  # the fixture puts the class back
    with pytest.raises(jobs.JobError, match="rows 0 to 11: 2 workers died of them, the last with status -9"):
        list(jobs.run(rows, MODEL, retries=1, **OPTIONS))


def test_wrong_arguments():
    for wrong in (dict(workers=0), dict(workers="many"), dict(chunk=0), dict(retries=-1), dict(num_return_sequences=2)):
        with pytest.raises(ValueError):
            jobs.run([], MODEL, **wrong)
    with pytest.raises(ValueError, match="each process can open"):
        jobs.run([], object())


def test_numa_nodes_hold_what_the_process_may_use():
    assert sorted(cpu for cpus in jobs.nodes() for cpu in cpus) == sorted(os.sched_getaffinity(0))
    rows = rows_of(6)
    assert list(jobs.run(rows, MODEL, workers="numa", **OPTIONS)) == jobs.Answers(MODEL, **OPTIONS)(rows)


def test_plain_pool():
    answer, rows = jobs.Answers(MODEL, threads=1, **OPTIONS), rows_of(20)
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        got = [row for batch in pool.map(answer, [rows[i : i + 5] for i in range(0, 20, 5)]) for row in batch]
    assert got == answer(rows)


def test_dask():
    bag = pytest.importorskip("dask.bag")
    answer, rows = jobs.Answers(MODEL, threads=1, **OPTIONS), rows_of(20)
    made = bag.from_sequence(rows, npartitions=4).map_partitions(answer)
    assert made.compute(scheduler="processes", num_workers=2) == answer(rows)


def test_ray(tmp_path, monkeypatch):
    """Two actors; one is killed in the middle: every row once, the same as here."""
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    import cadenza.ray

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    home = pathlib.Path(cadenza.__file__).resolve().parent.parent
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False,
             runtime_env={"env_vars": {"PYTHONPATH": f"{home}:{pathlib.Path(__file__).parent}"}})  # fmt: skip
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        mark, rows = tmp_path / "killed", rows_of(400)

        def dies_once(batch):
            if "row 200" in list(batch["name"]) and not mark.exists():
                mark.write_text("")
                os.kill(os.getpid(), signal.SIGKILL)
            return batch

        class Dies(jobs.Answers):
            def __call__(self, batch):
                return super().__call__(dies_once(batch))

        monkeypatch.setattr(cadenza.ray, "Answers", Dies)
        made = cadenza.ray.map_batches(ray.data.from_items(rows, override_num_blocks=8), MODEL, workers=2, batch_size=50, **OPTIONS)
        got = sorted(made.take_all(), key=lambda row: int(row["name"].split()[1]))
        assert mark.exists()
    finally:
        ray.shutdown()
    want = jobs.Answers(MODEL, **OPTIONS)(rows)
    assert [row["name"] for row in got] == [row["name"] for row in rows]
    assert [list(row["generated_ids"]) for row in got] == [row["generated_ids"] for row in want]
