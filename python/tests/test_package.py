"""The package itself: what importing does, errors, threads, signals, forks, memory."""

import gc
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest

import cadenza
from conftest import DICTIONARY

PROMPT = [[5, 6, 9]]
GREEDY = dict(do_sample=False, max_new_tokens=6, eos_token_id=None)


def run_python(code, **kwargs):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, **kwargs)


def test_import_is_light():
    code = (
        "import sys; before = set(sys.modules); import cadenza; new = set(sys.modules) - before; "
        "print([n for n in ('numpy', 'torch', 'transformers', 'cffi', 'pycparser', '_cffi_backend') if n in new]); "
        "cadenza.AutoModelForCausalLM; print('torch' in sys.modules, 'transformers' in sys.modules, 'numpy' in sys.modules)"
    )
    done = run_python(code)
    assert done.stdout.split("\n")[:2] == ["[]", "False False False"], done.stderr


def test_names_exist():
    for name in cadenza.__all__:
        assert getattr(cadenza, name) is not None
    with pytest.raises(AttributeError):
        cadenza.nothing


def test_kinds_of_ids(llama):
    want = llama.generate(PROMPT, **GREEDY)
    assert isinstance(want, list)
    got = llama.generate(numpy.array(PROMPT), **GREEDY)
    assert isinstance(got, numpy.ndarray) and got.dtype == numpy.int64 and got.tolist() == want
    assert llama.generate(numpy.array(PROMPT, numpy.int32), **GREEDY).tolist() == want
    assert llama.generate(PROMPT[0], **GREEDY) == want
    assert llama.generate(input_ids=tuple(PROMPT), **GREEDY) == want


@pytest.mark.parametrize(
    "arguments, error",
    [
        (dict(inputs=[[1, 2], [3]]), ValueError),
        (dict(inputs=[[1.5]]), ValueError),
        (dict(inputs=numpy.ones((1, 2))), ValueError),
        (dict(inputs=numpy.ones((1, 2, 3), int)), ValueError),
        (dict(inputs="text"), ValueError),
        (dict(inputs=[[10**6]]), ValueError),
        (dict(inputs=[[-1]]), ValueError),
        (dict(inputs=[[2**70]]), ValueError),
        (dict(inputs=PROMPT, input_ids=PROMPT), ValueError),
        (dict(inputs=PROMPT, temprature=1.0), ValueError),
        (dict(inputs=PROMPT, attention_mask=[[1, 1]]), ValueError),
        (dict(inputs=PROMPT, max_new_tokens=0), ValueError),
        (dict(inputs=PROMPT, max_new_tokens=2.5), ValueError),
        (dict(inputs=PROMPT, do_sample="yes"), ValueError),
        (dict(inputs=PROMPT, num_return_sequences=0), ValueError),
        (dict(inputs=PROMPT, logits_processor=3), ValueError),
        (dict(inputs=PROMPT, logits_processor=[3]), ValueError),
        (dict(inputs=PROMPT, past_key_values=((1,),)), ValueError),
        (dict(inputs=PROMPT, generation_config={}), AttributeError),
        (dict(inputs=PROMPT, assistant_model=3), ValueError),
        (dict(inputs=PROMPT, decoder_input_ids=[[1]]), ValueError),
        (dict(inputs=PROMPT, inputs_embeds=numpy.ones((1, 2, 3), numpy.float32)), ValueError),
        (dict(inputs=PROMPT, max_length=2), ValueError),
        (dict(inputs=PROMPT, bad_words_ids=object()), ValueError),
    ],
)
def test_bad_arguments(llama, arguments, error):
    with pytest.raises(error) as caught:
        llama.generate(**arguments)
    assert str(caught.value)
    assert llama.generate(PROMPT, **GREEDY)


def test_unknown_name_says_the_nearest(llama):
    with pytest.raises(ValueError, match="did you mean temperature"):
        llama.generate(PROMPT, temprature=1.0)


def test_missing_model():
    with pytest.raises(OSError, match="no such folder"):
        cadenza.AutoModelForCausalLM.from_pretrained("/no/such/folder")
    with pytest.raises(cadenza.NotFoundError):
        cadenza.AutoModelForCausalLM.from_pretrained("no-such/model")


def test_closed_model(golden):
    model = cadenza.Model.from_pretrained(golden("gpt2"))
    model.close()
    with pytest.raises(cadenza.StateError, match="closed"):
        model.generate(PROMPT, **GREEDY)


def test_results_outlive_the_model(golden):
    model = cadenza.Model.from_pretrained(golden("gpt2"))
    out = model.generate(numpy.array(PROMPT), **GREEDY, return_dict_in_generate=True, output_scores=True)
    scores = out.scores[0]
    want = scores.copy()
    del model, out
    gc.collect()
    assert (scores == want).all()
    scores[0, 0] = 1  # it is writable


class Marks(cadenza.LogitsProcessor):
    def __init__(self):
        self.seen = []

    def __call__(self, input_ids, scores):
        self.seen.append((input_ids, scores, scores.copy()))
        return scores


def test_kept_rows_are_never_reused(llama):
    marks = Marks()
    out = llama.generate(numpy.array(PROMPT), **GREEDY, logits_processor=[marks])
    assert len(marks.seen) == 6
    for step, (ids, scores, copy) in enumerate(marks.seen):
        assert ids.dtype == numpy.int64 and ids.tolist() == out[:, : 3 + step].tolist()
        assert scores.dtype == numpy.float32 and (scores == copy).all()
    assert len({scores.ctypes.data for _, scores, _ in marks.seen}) == 6


@pytest.mark.parametrize("raised", [ZeroDivisionError, KeyboardInterrupt, StopIteration, GeneratorExit, MemoryError])
def test_errors_of_a_processor(llama, raised):
    error = raised("mine")

    def processor(input_ids, scores):
        raise error

    with pytest.raises(raised) as caught:
        llama.generate(PROMPT, **GREEDY, logits_processor=[processor])
    assert caught.value is error
    assert any("processor" in str(frame.name) for frame in caught.traceback)
    with pytest.raises(raised):
        llama.generate(PROMPT, **GREEDY, stopping_criteria=[lambda ids, scores: processor(ids, scores)])
    assert llama.generate(PROMPT, **GREEDY)


def test_wrong_answers_of_callbacks(llama):
    for answer in (lambda i, s: None, lambda i, s: s[:, :3], lambda i, s: 3):
        with pytest.raises(ValueError, match="expected scores of shape"):
            llama.generate(PROMPT, **GREEDY, logits_processor=[answer])
    with pytest.raises(ValueError, match="shape"):
        llama.generate(PROMPT, **GREEDY, stopping_criteria=[lambda i, s: numpy.zeros(7, bool)])
    with pytest.raises(ValueError, match="third argument"):
        llama.generate(PROMPT, **GREEDY, logits_processor=[lambda i, s, t: s])


def test_generate_inside_a_callback(llama):
    def processor(input_ids, scores):
        return llama.generate(PROMPT, **GREEDY)

    with pytest.raises(cadenza.StateError, match="engine's thread"):
        llama.generate(PROMPT, **GREEDY, logits_processor=[processor])


def test_threads_share_a_model(llama):
    want = [llama.generate([[5, 6, 7 + i]], **GREEDY) for i in range(8)]
    got = [None] * 8

    def one(i):
        marks = [lambda ids, scores: scores] if i % 2 else []
        got[i] = [llama.generate([[5, 6, 7 + i]], **GREEDY, logits_processor=marks) for _ in range(5)]

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [[w] * 5 for w in want]


def test_interrupt_ends_a_generation(tmp_path):
    """Ctrl-C during a pass of a long answer: KeyboardInterrupt, and the next call works."""
    code = f"""
import cadenza, os, signal, sys, threading
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
from conftest import DICTIONARY
model = cadenza.Model.from_pretrained(DICTIONARY)
seen = threading.Event()
def began(ids, scores):
    seen.set()
    return False
def interrupt():
    seen.wait()
    os.kill(os.getpid(), {int(signal.SIGINT)})
threading.Thread(target=interrupt).start()
try:
    model.generate([[5, 6, 7]], max_new_tokens=400, do_sample=False, eos_token_id=None, stopping_criteria=[began])
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted", len(model.generate([[5, 6, 7]], max_new_tokens=3, do_sample=False, eos_token_id=None)[0]))
"""
    done = run_python(code)
    assert done.stdout.split() == ["interrupted", "6"], done.stderr


def test_fork_is_refused_and_opening_anew_works(golden):
    code = f"""
import cadenza, os
model = cadenza.Model.from_pretrained({golden("gpt2")!r})
ids = model.generate([[5, 6]], max_new_tokens=3, do_sample=False)
child = os.fork()
if child == 0:
    try:
        model.generate([[5, 6]], max_new_tokens=3)
        os._exit(1)
    except cadenza.ForkError as error:
        assert "forked" in str(error)
    del model
    again = cadenza.Model.from_pretrained({golden("gpt2")!r})
    os._exit(0 if again.generate([[5, 6]], max_new_tokens=3, do_sample=False) == ids else 2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), model.generate([[5, 6]], max_new_tokens=3, do_sample=False) == ids)
"""
    done = run_python(code)
    assert done.stdout.split() == ["0", "True"], done.stderr


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_calls_leave_nothing_behind(llama):
    n = int(os.environ.get("CADENZA_PYTHON_CALLS", "1500"))
    options = dict(max_new_tokens=2, do_sample=False, return_dict_in_generate=True, output_scores=True)
    for i in range(n + 300):
        if i == 300:
            gc.collect()
            before = resident()
        llama.generate(numpy.array(PROMPT), **options, logits_processor=[lambda ids, scores: scores])
    gc.collect()
    assert resident() - before < 4 * 2**20 + 300 * n // 100


def test_sample():
    logits = numpy.log(numpy.array([0.1, 0.2, 0.7], numpy.float32))
    assert cadenza.sample(logits, temperature=0) == 2
    assert cadenza.sample([logits, logits], temperature=0) == [2, 2]
    generator = cadenza.Generator(3)
    drawn = [cadenza.sample(logits, generator=generator) for _ in range(300)]
    assert 170 < drawn.count(2) < 250
    assert cadenza.sample(logits, top_k=1, seed=0) == 2
    with pytest.raises(ValueError):
        cadenza.sample([float("nan"), 1.0])
    with pytest.raises(ValueError):
        cadenza.sample(logits, temperature=-1)


def test_seeds(llama):
    options = dict(do_sample=True, max_new_tokens=8, eos_token_id=None)
    assert llama.generate(PROMPT, seed=3, **options) == llama.generate(PROMPT, seed=3, **options)
    cadenza.set_seed(3)
    first, second = llama.generate(PROMPT, **options), llama.generate(PROMPT, **options)
    cadenza.set_seed(3)
    assert [llama.generate(PROMPT, **options) for _ in range(2)] == [first, second]


def test_sequences(llama):
    root = llama.sequence([5, 6, 9])
    (logits,) = llama.forward([root])
    best = int(logits.argmax())
    assert llama.generate(PROMPT, **GREEDY)[0][3] == best
    left, right = root.fork().append(best), root.fork().append([1, 2])
    a, b = llama.forward([left, right])
    assert (a == llama([[5, 6, 9, best]]).logits[0, -1]).all()
    assert (b == llama([[5, 6, 9, 1, 2]]).logits[0, -1]).all()
    right.truncate(4)
    (c,) = llama.forward(right)
    assert (c == llama([[5, 6, 9, 1]]).logits[0, -1]).all()
    (every,) = llama.forward([llama.sequence([5, 6, 9])], positions="all")
    assert every.shape == (3, llama.vocab_size) and (every[-1] == logits).all()
    with pytest.raises(ValueError):
        root.truncate(0)
    with pytest.raises(ValueError):
        llama.forward([root], positions="some")


def test_custom_generate(llama, tmp_path):
    def loop(model, input_ids, logits_processor, stopping_criteria, generation_config, more=0, **kwargs):
        cache, new = kwargs["past_key_values"], input_ids
        assert generation_config.max_length == 9 and more == 5
        while True:
            out = model(new, past_key_values=cache)
            scores = logits_processor(input_ids, out.logits[:, -1].copy())
            new = scores.argmax(axis=-1)[:, None]
            input_ids = numpy.concatenate([input_ids, new], axis=1)
            if stopping_criteria(input_ids, None).all():
                return input_ids

    got = llama.generate(PROMPT, **GREEDY, custom_generate=loop, more=5)
    assert got.tolist() == llama.generate(PROMPT, **GREEDY)
    folder = tmp_path / "custom_generate"
    folder.mkdir()
    (folder / "helper.py").write_text("ANSWER = 42\n")
    (folder / "generate.py").write_text(
        "from .helper import ANSWER\ndef generate(model, inputs, **kwargs):\n    return ANSWER, inputs, kwargs\n"
    )
    with pytest.raises(ValueError, match="trust_remote_code"):
        llama.generate(PROMPT, custom_generate=str(tmp_path))
    assert llama.generate(PROMPT, custom_generate=str(tmp_path), trust_remote_code=True, x=1) == (42, PROMPT, {"x": 1})
    (folder / "requirements.txt").write_text("no-such-package-at-all>=3\n")
    with pytest.raises(ImportError, match="no-such-package-at-all"):
        llama.generate(PROMPT, custom_generate=str(tmp_path), trust_remote_code=True)
    with pytest.raises(OSError):
        llama.generate(PROMPT, custom_generate=str(folder), trust_remote_code=True)


def test_cache(llama):
    first = llama.generate(numpy.array(PROMPT), **GREEDY, return_dict_in_generate=True)
    cache = first.past_key_values
    assert cache.get_seq_length() == first.sequences.shape[1] - 1
    want = llama.generate(first.sequences, **GREEDY)
    assert (llama.generate(first.sequences, past_key_values=cache, **GREEDY) == want).all()
    assert cache.get_seq_length() == want.shape[1] - 1
    empty = cadenza.DynamicCache()
    assert empty.get_seq_length() == 0
    out = llama.generate(numpy.array(PROMPT), past_key_values=empty, return_dict_in_generate=True, **GREEDY)
    assert out.past_key_values is empty and empty.get_seq_length() == 8
    empty.crop(3)
    assert empty.get_seq_length() == 3
    again = llama.generate(numpy.array([[1, 2]]), attention_mask=numpy.ones((1, 5), int), past_key_values=empty, **GREEDY)
    assert (again == llama.generate(numpy.array([[5, 6, 9, 1, 2]]), **GREEDY)).all()


def test_config(tmp_path):
    config = cadenza.GenerationConfig(max_new_tokens=5, mine="kept")
    assert config.max_length is None and config.mine == "kept"
    config.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "generation_config.json").read_text())["max_new_tokens"] == 5
    back = cadenza.GenerationConfig.from_pretrained(tmp_path, temperature=0.7, do_sample=True)
    assert back.max_new_tokens == 5 and back.temperature == 0.7
    assert config.update(top_k=3, other=4) == {"other": 4} and config.top_k == 3
    assert config.get_generation_mode() == "greedy_search"
    with pytest.raises(ValueError):
        config.save_pretrained(tmp_path / "x")  # top_k without do_sample
    assert not (tmp_path / "x").exists()
    with pytest.raises(OSError):
        cadenza.GenerationConfig.from_pretrained(tmp_path / "y")
    with pytest.raises(ValueError):
        cadenza.GenerationConfig(num_return_sequences=2)


def test_manager(llama):
    want = {f"req_{i}": llama.generate([[5, 6, 7 + i]], **GREEDY)[0][3:] for i in range(6)}
    got = llama.generate_batch([[5, 6, 7 + i] for i in range(6)], **GREEDY)
    assert list(got) == list(want) and {k: v.generated_tokens for k, v in got.items()} == want
    with llama.continuous_batching_context_manager(**GREEDY) as manager:
        name = manager.add_request([5, 6, 7], streaming=True, request_id="mine")
        pieces = list(manager.request_id_iter(name))
        assert pieces[-1].is_finished() and pieces[-1].generated_tokens == want["req_0"]
        assert [len(p.generated_tokens) for p in pieces] == sorted(len(p.generated_tokens) for p in pieces)
        manager.add_request([5, 6, 8], max_new_tokens=400, request_id="long")
        with pytest.raises(ValueError):
            manager.add_request([5, 6, 8], request_id="long")
        manager.cancel_request("long")
        assert manager.get_result(timeout=0.3) is None
        with pytest.raises(RuntimeError):
            manager.evict_request_from_cache("x")
    assert not manager.is_running()
    with pytest.raises(cadenza.StateError):
        manager.add_request([1])


def test_pipeline_and_text(dictionary, tokenizer):
    pipe = cadenza.pipeline("text-generation", model=dictionary)
    options = dict(do_sample=False, max_new_tokens=5)
    (one,) = pipe("river (noun):", **options)
    assert one["generated_text"].startswith("river (noun): a")
    assert pipe(["river (noun):", "dog (noun): a"], **options)[0] == [one]
    assert pipe("river (noun):", return_full_text=False, **options)[0]["generated_text"] in one["generated_text"]
    with pytest.raises(KeyError):
        cadenza.pipeline("translation", model=dictionary)
    assert "".join(dictionary.stream("river (noun):", **options)) == one["generated_text"][len("river (noun):") :]


def test_async_stream(dictionary):
    import asyncio

    async def read():
        return [p async for p in dictionary.astream("river (noun):", do_sample=False, max_new_tokens=5)]

    assert "".join(asyncio.run(read())) == " a large natural stream of"


def test_tokenizer(tokenizer):
    text = "river (noun): a stream"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer(["a", text], padding=True, return_tensors="np").attention_mask[0, -1] == 0
    both = tokenizer(["a", text], padding=True, padding_side="left", return_tensors="np")
    assert both.input_ids.shape == both["attention_mask"].shape and both.attention_mask[0, 0] == 0
    ragged = tokenizer(["a", text], return_tensors="np").input_ids
    assert ragged.dtype == object and ragged[1].tolist() == ids
    assert tokenizer.batch_decode([ids, ids]) == [tokenizer.decode(ids)] * 2


TALK = [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "A stream."}]
SHORT = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}\n{% endfor %}"


def test_templates_of_ones_own(golden):
    """A text, one of several, one that is set; the model's own stays as it was."""
    own = cadenza.AutoTokenizer.from_pretrained(DICTIONARY)
    before = own.apply_chat_template(TALK)
    assert own.apply_chat_template(TALK, chat_template=SHORT, tokenize=False) == "u:What?\na:A stream.\n"
    assert own.apply_chat_template(TALK, chat_template=SHORT, return_dict=False) == own.encode("u:What?\na:A stream.\n")
    assert own.apply_chat_template(TALK) == before and "messages" in own.chat_template
    for i in range(12):  # more than are kept
        assert own.apply_chat_template(TALK, chat_template=f"{{{{ messages[0].content }}}}{i}", tokenize=False) == f"What?{i}"
    own.chat_template = {"default": SHORT, "count": "{{ messages | length }}", "tool_use": "{{ tools | length }}"}
    assert own.apply_chat_template(TALK, tokenize=False).startswith("u:What?")
    assert own.apply_chat_template(TALK, chat_template="count", tokenize=False) == "2"
    assert own.apply_chat_template(TALK, tools=[{"name": "f"}], tokenize=False) == "1"
    assert own.get_chat_template(tools=[]) == "{{ tools | length }}"
    with pytest.raises(cadenza.UsageError, match="did you mean 'count'"):
        own.apply_chat_template(TALK, chat_template="coumt")
    with pytest.raises(cadenza.InputError, match=r"^chat_template:1:8"):
        own.apply_chat_template(TALK, chat_template="{% for %}", tokenize=False)
    with pytest.raises(ValueError, match="not today"):
        own.apply_chat_template(TALK, chat_template="{{ raise_exception('not today') }}")
    for wrong in (3, ["a"], {"default": 3}):
        with pytest.raises(ValueError, match="chat_template"):
            own.chat_template = wrong
    own.chat_template = {"one": SHORT, "other": SHORT}
    with pytest.raises(ValueError, match="no default"):
        own.apply_chat_template(TALK)
    own.chat_template = None
    with pytest.raises(ValueError, match="has none"):
        own.apply_chat_template(TALK)
    without = cadenza.AutoTokenizer.from_pretrained(golden("llama_gqa"))
    assert without.chat_template is None
    assert without.apply_chat_template(TALK, chat_template="{{ bos_token }}{{ messages[0].content }}", tokenize=False) == "<s>What?"


def test_templates_leave_no_folders(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = cadenza.AutoTokenizer.from_pretrained(DICTIONARY)
    own.apply_chat_template(TALK, chat_template=SHORT)
    assert len(list(tmp_path.iterdir())) == 1
    del own
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_embeddings_of_the_model(llama):
    for call in (llama.get_input_embeddings, llama.get_output_embeddings):
        with pytest.raises(cadenza.UnsupportedError, match="stay in the engine"):
            call()


def test_score_and_show(dictionary, tokenizer):
    ids = tokenizer.encode("river (noun): a")
    values = dictionary.score("river (noun): a")
    logits = dictionary([ids]).logits[0].astype(numpy.float64)
    want = [logits[i, t] - numpy.log(numpy.exp(logits[i]).sum()) for i, t in enumerate(ids[1:])]
    assert numpy.isnan(values[0]) and numpy.allclose(values[1:], want, atol=1e-4)
    out = dictionary.generate(numpy.array([ids]), **GREEDY, return_dict_in_generate=True, output_scores=True)
    shown = cadenza.show(out, tokenizer)._repr_mimebundle_()
    assert "<script" not in shown["text/html"] and "river" in shown["text/plain"]
    assert "sequences" in out._repr_mimebundle_()["text/plain"]


def test_scores_of_texts(dictionary, tokenizer, golden):
    texts = ["river (noun): a large stream", "dog", [5, 6, 9]]
    found = cadenza.score(texts, dictionary, top=3)
    for each, text in zip(found, texts):
        ids = tokenizer.encode(text) if isinstance(text, str) else text
        want = dictionary.score(ids)
        assert each.ids == ids and (each.logprobs[1:] == want[1:]).all() and numpy.isnan(each.logprobs[0])
        assert each.total == pytest.approx(float(want[1:].sum()), rel=1e-5)
        assert each.perplexity == pytest.approx(math.exp(-each.total / (len(ids) - 1)))
        logits = dictionary([ids]).logits[0][:-1].astype(numpy.float64)
        assert (each.top_ids[1:] == numpy.argsort(-logits, axis=-1, kind="stable")[:, :3]).all()
        logprobs = logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))
        assert numpy.allclose(each.top_logprobs[1:], -numpy.sort(-logprobs)[:, :3], atol=1e-4)
    assert [s.ids for s in cadenza.score([[5, i] for i in range(200)], dictionary)] == [[5, i] for i in range(200)]
    for wrong in ("text", [""], [[]], [[1, 10**6]], [[-1]], [3.5]):
        with pytest.raises(ValueError):
            cadenza.score(wrong, dictionary)
    with pytest.raises(ValueError, match="top"):
        cadenza.score(["a"], dictionary, top=-1)
    with pytest.raises(cadenza.UnsupportedError, match="encoder"):
        cadenza.score([[5, 6]], golden("bart"))


def test_deadlines_and_times(llama):
    began = time.monotonic()
    llama.generate(PROMPT, do_sample=False, max_new_tokens=5, max_time=60.0, eos_token_id=None)
    assert time.monotonic() - began < 60
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
