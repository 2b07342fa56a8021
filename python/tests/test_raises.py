"""Code of one's own that raises, at each call there is, wherever it may stand: the very object reaches the caller with the user's
frames, the engine goes on, and nothing is left behind. And code that calls back, closes what it runs on, or comes from a fork."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy
import pytest

import cadenza
from cadenza import processors
from conftest import GOLDEN

PROMPT = [[5, 6, 9, 5, 6, 9, 5, 6]]
THREE = [[5, 6, 9, 5], [7, 8, 9, 7], [40, 41, 42, 40]]
GREEDY = dict(do_sample=False, max_new_tokens=6, eos_token_id=None)
SETTINGS = {
    "a row": (PROMPT, {}),
    "three rows": (THREE, {}),
    "three rows that end": (THREE, dict(eos_token_id=list(range(3, 120)), pad_token_id=0)),
    "beams": (THREE, dict(num_beams=3, num_return_sequences=2)),
    "beam sampling": (PROMPT, dict(num_beams=2, do_sample=True)),
    "samples": (PROMPT, dict(do_sample=True, num_return_sequences=3)),
    "lookup": (PROMPT, dict(prompt_lookup_num_tokens=3)),
    "drafts": (PROMPT, dict(drafter=lambda ids, room: ids[-room:].tolist())),
    "contrastive": (PROMPT, dict(penalty_alpha=0.6, top_k=4)),
    "everything": (THREE, dict(return_dict_in_generate=True, output_scores=True, output_logits=True, output_hidden_states=True)),
}


class Mine(Exception):
    pass


class Raises:
    """Raises at its n-th call."""

    def __init__(self, n, kind=Mine):
        self.n, self.error, self.raised = n, kind(f"call {n}"), False

    def count(self):
        self.n -= 1
        if self.n == 0:
            self.raised = True
            raise self.error

    def process(self, ids, scores):
        self.count()
        return scores

    def stop(self, ids, scores, **kwargs):
        self.count()
        return False

    def allow(self, row, ids):
        self.count()
        return list(range(4, 90))

    def draft(self, ids, room):
        self.count()
        return ids[-room:].tolist()

    def put(self, value):
        self.count()

    def end(self):
        self.count()


class Judges(cadenza.Drafter):
    def __init__(self, raises):
        self.raises = raises

    def __call__(self, ids, room):
        return ids[-room:].tolist()

    def judged(self, n_proposed, n_accepted):
        self.raises.count()


PLACES = {
    "processor": lambda r: dict(logits_processor=[lambda ids, scores: scores, r.process]),
    "criterion": lambda r: dict(stopping_criteria=[lambda ids, scores: False, r.stop]),
    "prefix function": lambda r: dict(prefix_allowed_tokens_fn=r.allow),
    "both": lambda r: dict(logits_processor=[r.process], stopping_criteria=[r.stop]),
    "streamer": lambda r: dict(streamer=r),
    "streamer beside a processor": lambda r: dict(streamer=r, logits_processor=[lambda ids, scores: scores]),
    "drafter": lambda r: dict(drafter=r.draft),
    "judge": lambda r: dict(drafter=Judges(r)),
}


@pytest.fixture
def unharmed(llama):
    """Afterwards the model answers as before, and no request's objects are known any more."""
    want = llama.generate(PROMPT, **GREEDY)
    yield llama
    assert llama.generate(PROMPT, **GREEDY) == want
    assert not processors._calls


def fits(place, kwargs):
    """Streamers take no beams; drafts one row that nothing else searches."""
    if "streamer" in place and kwargs.get("num_beams"):
        return False
    alone = not set(kwargs) & {"num_beams", "num_return_sequences", "prompt_lookup_num_tokens", "drafter", "penalty_alpha"}
    return alone if place in ("drafter", "judge") else True


def frames(error):
    names, at = [], error.__traceback__
    while at is not None:
        names.append(at.tb_frame.f_code.co_name)
        at = at.tb_next
    return names


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_every_call(unharmed, place, setting):
    prompt, kwargs = SETTINGS[setting]
    if not fits(place, kwargs):
        return
    n = 1
    while n < 200:
        raises = Raises(n)
        try:
            unharmed.generate(prompt, **{**GREEDY, **kwargs, **PLACES[place](raises)})
        except Mine as error:
            assert error is raises.error and "count" in frames(error)
        else:
            assert not raises.raised
            break
        n += 1
    assert 1 < n < 200, "it was never called, or never enough"


@pytest.mark.parametrize("name", ["bart", "t5_gated"])
def test_every_call_of_an_encoder(golden, name):
    model = cadenza.AutoModelForSeq2SeqLM.from_pretrained(golden(name))
    want = model.generate(PROMPT, **GREEDY)
    for kwargs in ({}, dict(num_beams=2)):
        for n in range(1, 6):
            for place in ("processor", "criterion"):
                raises = Raises(n)
                with pytest.raises(Mine) as caught:
                    model.generate(PROMPT, **{**GREEDY, **kwargs, **PLACES[place](raises)})
                assert caught.value is raises.error
    assert model.generate(PROMPT, **GREEDY) == want


def test_an_assistant_is_unharmed(golden, llama):
    """The processors of a call run on the draft too."""
    assistant = cadenza.AutoModelForCausalLM.from_pretrained(golden("llama_gqa"))
    want = assistant.generate(PROMPT, **GREEDY)
    for n in range(1, 9):
        raises = Raises(n)
        try:
            llama.generate(PROMPT, assistant_model=assistant, logits_processor=[raises.process], **GREEDY)
        except Mine as error:
            assert error is raises.error
        assert assistant.generate(PROMPT, **GREEDY) == want


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, StopAsyncIteration, MemoryError, RecursionError, asyncio.CancelledError])
@pytest.mark.parametrize("place", ["processor", "criterion", "streamer", "drafter"])
def test_every_kind(unharmed, place, kind):
    for n in (1, 4):
        raises = Raises(n, kind)
        with pytest.raises(kind) as caught:
            unharmed.generate(PROMPT, **{**GREEDY, **PLACES[place](raises)})
        assert caught.value is raises.error


def test_custom_generate_raises(unharmed):
    def loop(model, input_ids, logits_processor, stopping_criteria, generation_config, **kwargs):
        while True:
            scores = logits_processor(input_ids, model(input_ids, logits_to_keep=1).logits[:, -1].copy())
            input_ids = numpy.concatenate([input_ids, scores.argmax(-1)[:, None]], 1)
            if stopping_criteria(input_ids, None).all():
                return input_ids

    for place in ("processor", "criterion"):
        for n in range(1, 5):
            raises = Raises(n)
            with pytest.raises(Mine) as caught:
                unharmed.generate(THREE, custom_generate=loop, **{**GREEDY, **PLACES[place](raises)})
            assert caught.value is raises.error and {"loop", "count"} <= set(frames(caught.value))


def test_streams_raise_in_their_reader(dictionary):
    want = dictionary.generate([[360, 336, 292]], **GREEDY)

    async def read(raises):
        return [piece async for piece in dictionary.astream("river (noun):", logits_processor=[raises.process], **GREEDY)]

    for n in range(1, 7):
        raises = Raises(n)
        with pytest.raises(Mine) as caught:
            list(dictionary.stream("river (noun):", logits_processor=[raises.process], **GREEDY))
        assert caught.value is raises.error
        raises = Raises(n)
        with pytest.raises(Mine) as caught:
            asyncio.run(read(raises))
        assert caught.value is raises.error
    assert dictionary.generate([[360, 336, 292]], **GREEDY) == want


def test_observers_are_logged(unharmed, caplog):
    class Fails(cadenza.Observer):
        def __init__(self, name, n):
            self.raises = Raises(n)
            setattr(self, name, self.fail)

        def fail(self, *args):
            self.raises.count()

    want = unharmed.generate(THREE, **GREEDY)
    for name in ("begin", "token", "stop", "end"):
        for n in (1, 2):
            assert unharmed.generate(THREE, observers=[Fails(name, n)], **GREEDY) == want
    assert "Mine: call 1" in caplog.text


def test_code_that_calls_the_engine_again(unharmed, golden):
    """The same model, another of its engine, and one of an engine of its own: an answer or a StateError, no waiting for oneself."""
    other = cadenza.Model.from_pretrained(golden("gpt2"))
    apart = cadenza.Model.from_pretrained(golden("gpt2"), threads=1)
    sequence = unharmed.sequence([5, 6])
    manager, served = unharmed.init_continuous_batching(**GREEDY), unharmed.init_continuous_batching(**GREEDY)
    served.start()
    calls = {
        "generate": lambda: unharmed.generate(PROMPT, **GREEDY), "another": lambda: other.generate(PROMPT, **GREEDY),
        "apart": lambda: apart.generate(PROMPT, **GREEDY), "forward": lambda: unharmed(PROMPT), "sequence": lambda: unharmed.forward([sequence]),
        "score": lambda: unharmed.score([5, 6]), "scores": lambda: cadenza.score([[5, 6]], unharmed), "batch": lambda: unharmed.generate_batch(PROMPT),
        "manager": manager.start, "result": lambda: served.get_result(), "end": lambda: served.stop(), "stream": lambda: list(unharmed.stream(PROMPT, tokenizer=object())),
    }  # fmt: skip
    for name, call in calls.items():
        for place in ("logits_processor", "stopping_criteria"):
            done = []

            def inside(ids, scores, call=call, done=done):
                done.append(call())
                return scores

            with pytest.raises(cadenza.StateError, match="engine's thread"):
                unharmed.generate(PROMPT, **{**GREEDY, place: [inside]})
            assert not done, name
    served.stop()


def test_streamers_may_call_again(unharmed):
    """They run on the caller's thread."""
    want, got = unharmed.generate(PROMPT, **GREEDY), []

    class Calls:
        def put(self, value):
            got.append(unharmed.generate(PROMPT, **GREEDY))

        def end(self):
            self.put(None)

    assert unharmed.generate(PROMPT, streamer=Calls(), **GREEDY) == want
    assert len(got) == 8 and all(each == want for each in got)


def test_closing_the_model_that_runs(golden):
    """From its own callbacks, and from another thread: the answer, or a documented exception; never a crash."""
    for place in ("logits_processor", "stopping_criteria", "streamer", "thread"):
        model = cadenza.Model.from_pretrained(golden("gpt2"))
        kwargs = dict(max_new_tokens=30, do_sample=False, eos_token_id=None)

        class Closes:
            def __call__(self, ids, scores, **kwargs):
                if ids.shape[1] == 12:
                    model.close()
                return scores if place == "logits_processor" else False

            def put(self, value):
                model.close()

            def end(self):
                pass

        if place == "thread":
            began = threading.Event()
            closer = threading.Thread(target=lambda: began.wait() and model.close())
            closer.start()
            kwargs["stopping_criteria"] = [lambda ids, scores: began.set() or False]
        else:
            kwargs[place] = Closes() if place == "streamer" else [Closes()]
        try:
            assert len(model.generate(PROMPT, **kwargs)[0]) == 38
        except cadenza.CadenzaError as error:
            assert str(error)
        with pytest.raises(cadenza.CadenzaError):
            began.set() if place == "thread" else None
            closer.join() if place == "thread" else None
            model.generate(PROMPT, **GREEDY)


def test_nothing_is_left_behind(unharmed):
    """Of requests that failed, whatever ended them: the objects of a call live no longer than its exception."""
    for place in ("processor", "criterion", "streamer", "drafter"):
        for wrong in ({}, dict(sequence_bias=object()), dict(max_length=2, max_new_tokens=None), dict(bad_words_ids=[[10**9]])):
            raises = Raises(3)
            known = weakref.ref(raises)
            try:
                unharmed.generate(PROMPT, **{**GREEDY, **PLACES[place](raises), **wrong})
            except (Mine, ValueError, TypeError):
                pass
            del raises
            gc.collect()
            assert known() is None and not processors._calls, (place, wrong)


def test_memory_of_calls_that_raise(unharmed):
    def once(n):
        for place in ("processor", "streamer"):
            with pytest.raises(Mine):
                unharmed.generate(THREE, **{**GREEDY, **PLACES[place](Raises(n)), "return_dict_in_generate": True, "output_scores": True})

    turns = int(os.environ.get("CADENZA_PYTHON_CALLS", "1500")) // 5
    for turn in range(turns + 60):
        if turn == 60:
            gc.collect()
            before = resident()
        once(1 + turn % 6)
    gc.collect()
    assert resident() - before < 4 * 2**20


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_arrays_that_a_processor_takes_apart(unharmed):
    """What is done to the arrays themselves changes no memory that is not theirs."""
    torch = pytest.importorskip("torch")
    want = unharmed.generate(torch.tensor(PROMPT), **GREEDY)

    def other_data(ids, scores):
        scores.data = -scores.data
        return scores

    def other_storage(ids, scores):
        scores.set_(-scores)
        return scores

    turned = unharmed.generate(torch.tensor(PROMPT), logits_processor=[lambda i, s: -s], **GREEDY)
    assert not torch.equal(turned, want)
    for edit in (other_data, other_storage):
        assert torch.equal(unharmed.generate(torch.tensor(PROMPT), logits_processor=[edit], **GREEDY), turned)

    def frozen(ids, scores):
        scores.setflags(write=False)
        ids.setflags(write=False)
        return scores

    assert unharmed.generate(numpy.array(PROMPT), logits_processor=[frozen], **GREEDY).tolist() == want.tolist()
    for wrong in (lambda i, s: s.resize((1, 3)), lambda i, s: s.resize_(1, 3), lambda i, s: s.untyped_storage().resize_(0)):
        for ids in (numpy.array(PROMPT), torch.tensor(PROMPT)):
            with pytest.raises((ValueError, RuntimeError, AttributeError)):
                unharmed.generate(ids, logits_processor=[wrong], **GREEDY)


FORK = """
import cadenza, os, sys, threading
model = cadenza.Model.from_pretrained({folder!r})
greedy = dict(do_sample=False, max_new_tokens=4, eos_token_id=None)
out = model.generate([[5, 6]], return_dict_in_generate=True, output_scores=True, **greedy)
sequence, manager = model.sequence([5, 6]), model.init_continuous_batching(**greedy)
manager.start()
streamed = model.stream([[5, 6]], tokenizer=type("T", (), dict(decode=lambda s, ids, **k: "x "))(), **greedy)
next(streamed)
def refused(call):
    try:
        call()
    except cadenza.ForkError:
        return True
def child():
    assert refused(lambda: model.generate([[5, 6]], **greedy)) and refused(lambda: model([[5, 6]])) and refused(lambda: model.score([5, 6]))
    assert refused(lambda: model.forward([sequence])) and refused(lambda: model.generate_batch([[5, 6]])) and refused(model.explain)
    assert not manager.is_running() and manager.get_result(timeout=0.2) is None
    assert refused(lambda: model.generate(out.sequences, past_key_values=out.past_key_values, **greedy))
    assert out.scores[0].shape[0] == 1
    global sequence
"""


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_everything_after_a_fork():
    code = FORK.format(folder=str(GOLDEN / "gpt2")).replace("    global sequence\n", "") + """
    model.close()
at = os.fork()
if at == 0:
    try:
        child()
        del model, out, sequence
        os._exit(0)
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
code = os.waitstatus_to_exitcode(os.waitpid(at, 0)[1])
name = manager.add_request([5, 6])
print(code, manager.get_result(timeout=30).generated_tokens == model.generate([[5, 6]], **greedy)[0][2:])
"""
    done = run_python(code)
    assert done.stdout.split() == ["0", "True"], done.stderr


def test_forks_of_a_callback(golden):
    """A processor that starts a process by fork."""
    done = run_python(f"""
import cadenza, os
model = cadenza.Model.from_pretrained({golden("gpt2")!r})
codes = []
def forks(ids, scores):
    at = os.fork()
    if at == 0:
        try:
            model.generate([[5, 6]])
        except cadenza.CadenzaError:
            os._exit(0)
        os._exit(1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(at, 0)[1]))
    return scores
model.generate([[5, 6]], do_sample=False, max_new_tokens=3, eos_token_id=None, logits_processor=[forks])
print(codes)
""")
    assert done.stdout.strip() == "[0, 0, 0]", done.stderr
