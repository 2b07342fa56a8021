"""Scores that a processor keeps: they stay as they were, whatever holds them, and nothing is copied for one that keeps none."""

import gc
import importlib.util
import subprocess
import sys
import threading

import numpy
import pytest

import cadenza
from cadenza import processors

PROMPT = [[5, 80, 201]]
THREE = [[5, 80, 201], [17, 300, 5], [9, 9, 10]]
GREEDY = dict(do_sample=False, max_new_tokens=7, eos_token_id=None)
KINDS = ["numpy"] + (["torch"] if importlib.util.find_spec("torch") else [])
LOOPS = {
    "greedy": dict(do_sample=False),
    "sampled": dict(do_sample=True, seed=5),
    "beams": dict(do_sample=False, num_beams=3),
    "penalties": dict(do_sample=False, repetition_penalty=1.3, no_repeat_ngram_size=2),
    "guidance": dict(do_sample=False, guidance_scale=1.5),
}


def given(ids, kind):
    if kind == "numpy":
        return numpy.array(ids)
    import torch

    return torch.tensor(ids)


def as_numpy(value):
    return numpy.asarray(value.detach().numpy() if hasattr(value, "detach") else value)


def of_dlpack(scores):
    return numpy.from_dlpack(scores)


# What holds an array or a tensor, and how its rows are read again.
HOLDERS = {
    "itself": (lambda s: s, as_numpy),
    "a row": (lambda s: s[0], lambda held: as_numpy(held)[None]),
    "rows from behind": (lambda s: as_numpy(s)[::-1], lambda held: held[::-1]),
    "a view of a view": (lambda s: s[:, :].reshape(-1)[:], lambda held: as_numpy(held)),
    "transposed": (lambda s: s.T, lambda held: as_numpy(held).T),
    "a memoryview": (lambda s: memoryview(as_numpy(s)), numpy.asarray),
    "DLPack": (of_dlpack, numpy.asarray),
    "a cycle": (lambda s: Cycle(s), lambda held: as_numpy(held.scores)),
    "a closure": (lambda s: lambda: s, lambda held: as_numpy(held())),
}  # fmt: skip


class Cycle:
    def __init__(self, scores):
        self.scores, self.me = scores, self


class Holder:
    """Edits in place and holds the scores of some steps, with a copy of what they were then. It returns them, or others."""

    def __init__(self, hold, steps, other=False):
        self.hold, self.steps, self.other, self.n, self.held = hold, steps, other, 0, []

    def __call__(self, ids, scores):
        scores[:, 7] += 0.5
        scores[0, 3:9] *= 1.25
        if self.n in self.steps:
            self.held.append((self.hold(scores), as_numpy(scores).copy()))
        self.n += 1
        return scores * 0.5 if self.other else scores

    def check(self, read):
        for held, was in self.held:
            found = read(held)
            assert numpy.array_equal(found.reshape(-1), was.reshape(-1)[: found.size])


def answer_of(model, kind, processor, ids=THREE, **kwargs):
    return as_numpy(model.generate(given(ids, kind), logits_processor=processor, **{**GREEDY, **kwargs})).tolist()


@pytest.fixture
def no_copies(monkeypatch):
    """Copies of rows for processors fail."""

    def copies(*_args):
        raise AssertionError("rows were copied for a processor")

    monkeypatch.setattr(processors.Call, "process_copies", copies)


@pytest.fixture
def copies_alone(monkeypatch):
    def process_rows(self, step, scores, first, ids, shape):
        self.process_copies(ids, scores.data + first * shape[1], shape[1], shape)

    return lambda: monkeypatch.setattr(processors.Call, "process_rows", process_rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("steps", [{0}, {2}, {0, 1, 2, 3, 4, 5, 6}, {1, 4}])
def test_what_is_held_stays(llama, kind, name, steps):
    hold, read = HOLDERS[name]
    for other in (False, True):
        holder, free = Holder(hold, steps, other), Holder(hold, set(), other)
        want = answer_of(llama, kind, [free])
        assert answer_of(llama, kind, [holder]) == want
        assert len(holder.held) == len(steps)
        holder.check(read)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loop", LOOPS)
def test_loops(llama, kind, loop):
    want = answer_of(llama, kind, [Holder(None, set())], **LOOPS[loop])
    for steps in ({0}, {3}):
        holder = Holder(lambda s: s, steps)
        assert answer_of(llama, kind, [holder], **LOOPS[loop]) == want
        holder.check(as_numpy)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_outlive_the_model(golden, kind):
    model = cadenza.AutoModelForCausalLM.from_pretrained(golden("llama_gqa"))
    holder = Holder(lambda s: s, {1, 2})
    answer_of(model, kind, [holder])
    model.close()
    del model
    gc.collect()
    holder.check(as_numpy)
    for held, _ in holder.held:
        held[:] = 1  # it is the holder's
        assert (as_numpy(held) == 1).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loop", LOOPS)
def test_nothing_is_copied(llama, kind, loop, no_copies):
    """For those that hold nothing, whatever they return; the first two steps lie at one place in memory."""
    places = []

    def looks(ids, scores):
        places.append(scores.data_ptr() if kind == "torch" else scores.__array_interface__["data"][0])
        return scores

    edits = [looks, Holder(None, set()), Holder(None, set(), other=True), lambda i, s: s[:, :], lambda i, s: s.reshape(s.shape)]
    for processor in edits:
        answer_of(llama, kind, [processor], **LOOPS[loop])
    answer_of(llama, kind, edits, PROMPT, **LOOPS[loop])
    assert len(places) == 14 and len(set(places[:7])) == len(set(places[7:])) == 1


def test_copies_of_those_that_hold(llama, no_copies):
    """The fixture above says nothing if nobody copies."""
    with pytest.raises(AssertionError, match="were copied"):
        answer_of(llama, "numpy", [Holder(lambda s: s, {0})])


@pytest.mark.parametrize("kind", KINDS)
def test_answers_of_every_kind(llama, kind, copies_alone):
    """The same tokens as over copies: views, views in another order, other types, other memory."""
    lib = numpy if kind == "numpy" else pytest.importorskip("torch")
    edits = {
        "in place": lambda i, s: s.__imul__(-0.5),
        "a view": lambda i, s: s[:],
        "in another order": lambda i, s: s[:, ::-1] if kind == "numpy" else s.flip(1),
        "rows in another order": lambda i, s: s[::-1] if kind == "numpy" else s.flip(0),
        "other memory": lambda i, s: -s,
        "double": lambda i, s: (s * -1.5).astype("f8") if kind == "numpy" else (s * -1.5).double(),
        "bits": lambda i, s: s.view(lib.int32),
        "one row for all": lambda i, s: lib.broadcast_to(s[:1], tuple(s.shape)),
    }  # fmt: skip
    found = {name: answer_of(llama, kind, [edit]) for name, edit in edits.items()}
    copies_alone()
    assert found == {name: answer_of(llama, kind, [edit]) for name, edit in edits.items()}
    assert len({str(answer) for answer in found.values()}) > 4


@pytest.mark.parametrize("kind", KINDS)
def test_the_holder_goes_on_editing(llama, kind):
    """What is held is nobody else's: later edits of it reach neither the engine nor what else was held."""
    want, rows = answer_of(llama, kind, [Holder(None, set())]), []

    def spoils(ids, scores):
        for held in rows:
            held[:] = float("nan")
        rows.append(scores)
        return scores

    assert answer_of(llama, kind, [Holder(None, set()), spoils]) == want
    assert all(numpy.isnan(as_numpy(held)).all() for held in rows[:-1]) and not numpy.isnan(as_numpy(rows[-1])).any()


def test_several_at_their_places(llama):
    """Python's, with one of the library's between: one of two holds, and the other is shown the engine's rows."""
    between = cadenza.processor("dry", multiplier=0.8)
    free = Holder(None, set())
    want = answer_of(llama, "numpy", [Holder(None, set()), between, free])
    for places in ((0,), (1,), (0, 1)):
        mine = [Holder(lambda s: s, {0, 3} if i in places else set()) for i in (0, 1)]
        assert answer_of(llama, "numpy", [mine[0], between, mine[1]]) == want
        for holder in mine:
            holder.check(as_numpy)


def test_with_the_scores_of_the_answer(llama):
    asked = dict(**GREEDY, output_scores=True, output_logits=True, return_dict_in_generate=True)
    want = llama.generate(numpy.array(THREE), logits_processor=[Holder(None, set())], **asked)
    holder = Holder(lambda s: s, {0, 2})
    got = llama.generate(numpy.array(THREE), logits_processor=[holder], **asked)
    for a, b in zip(want.scores + want.logits, got.scores + got.logits):
        assert numpy.array_equal(a, b)
    for step, (held, _) in zip((0, 2), holder.held):
        assert numpy.array_equal(held, got.scores[step])


def test_with_drafts(llama):
    want = answer_of(llama, "numpy", [Holder(None, set())], PROMPT, prompt_lookup_num_tokens=3)
    holder = Holder(lambda s: s, {0, 1, 2, 5})
    assert answer_of(llama, "numpy", [holder], PROMPT, prompt_lookup_num_tokens=3) == want
    holder.check(as_numpy)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0, 3])
def test_a_traceback_holds(golden, kind, step):
    """The exception's frames have the scores: they are what they were, and the model may be gone."""
    model = cadenza.AutoModelForCausalLM.from_pretrained(golden("llama_gqa"))
    copies = []

    def raises(ids, scores):
        if len(copies) == step:
            copies.append(as_numpy(scores).copy())
            raise KeyError("mine")
        copies.append(None)
        return scores

    with pytest.raises(KeyError) as caught:
        answer_of(model, kind, [raises])
    model.close()
    frame = caught.traceback[-1].frame
    assert numpy.array_equal(as_numpy(frame.f_locals["scores"]), copies[-1])


def test_read_by_a_thread(llama):
    """Of a processor that hands its rows to a thread, which reads them while the engine goes on."""
    handed, wrong, threads = [], [], []

    def reads(scores, was):
        wrong.extend(0 for _ in range(50) if not numpy.array_equal(scores, was))

    def hands(ids, scores):
        handed.append(scores)
        threads.append(threading.Thread(target=reads, args=(scores, scores.copy())))
        threads[-1].start()
        return scores

    for _ in range(10):
        answer_of(llama, "numpy", [hands])
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_of_what_is_let_go(golden):
    """Rows that were held for a while, of many requests."""
    code = f"""
import os, cadenza, numpy
model = cadenza.AutoModelForCausalLM.from_pretrained({golden("llama_gqa")!r})
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
for turn in range(120):
    if turn == 20:
        before = resident()
    held = []
    model.generate(numpy.full((128, 2), 5), do_sample=False, max_new_tokens=1, eos_token_id=None, logits_processor=[lambda i, s: held.append(s) or s])
    assert len(held) == 1
print(resident() - before < 4 * 2**20)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "True", done.stderr
