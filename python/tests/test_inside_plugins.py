"""Cadenza's processors and criteria as transformers' objects: they give what they give in Cadenza's own models."""

import json

import numpy
import pytest

import cadenza
import cadenza.transformers as inside
from cadenza import _core
from cadenza._abi import ffi
from conftest import DICTIONARY

PROMPT = [360, 336, 292, 300, 360, 336]
SCORES = numpy.zeros((1, 9), numpy.float32)

# Parameters with which each processor does something in these rows.
PROCESSORS = {
    "alternating_codebooks": dict(input_start_len=6, semantic_vocab_size=200, codebook_size=100),
    "bad_words_ids": dict(bad_words_ids=[[300], [336, 292]]),
    "bark_eos_prioritizer": dict(min_eos_p=1e-7, eos_token_id=5),
    "begin_suppress_tokens": dict(begin_suppress_tokens=[300, 5]),
    "dry": dict(multiplier=0.8, allowed_length=1),
    "dynamic_temperature": dict(low=0.5, high=1.5),
    "encoder_no_repeat_ngram_size": dict(encoder_no_repeat_ngram_size=2),
    "encoder_repetition_penalty": dict(encoder_repetition_penalty=1.4),
    "entropy_temperature": {},
    "epsilon_cutoff": dict(epsilon_cutoff=0.01),
    "eta_cutoff": dict(eta_cutoff=0.01),
    "exponential_decay_length_penalty": dict(exponential_decay_length_penalty=[2, 1.2], eos_token_id=5),
    "forced_bos_token_id": dict(forced_bos_token_id=7),
    "forced_eos_token_id": dict(forced_eos_token_id=7, max_length=13),
    "frequency_penalty": dict(frequency_penalty=0.7),
    "keyword": dict(words="stream", max_new_tokens=7, tokenizer=True),
    "logit_bias": dict(texts=" water", biases=3.0, tokenizer=True),
    "min_length": dict(min_length=10, eos_token_id=5),
    "min_new_tokens": dict(min_new_tokens=4, eos_token_id=5),
    "min_p": dict(min_p=0.1),
    "no_repeat_ngram_size": dict(no_repeat_ngram_size=2),
    "presence_penalty": dict(presence_penalty=0.7),
    "prefix_allowed_tokens": dict(cycle=[[5, 6, 7], [8]]),
    "recent_penalties": dict(repetition=1.3, last_n=4),
    "remove_invalid_values": dict(remove_invalid_values=True),
    "renormalize_logits": dict(renormalize_logits=True),
    "repetition_penalty": dict(repetition_penalty=1.3),
    "sequence_bias": dict(sequence_bias=[[[300], 2.5], [[336, 292], -3.0]]),
    "smoothing": dict(smoothing_factor=0.3),
    "suppress_tokens": dict(suppress_tokens=[5, 300]),
    "tail_free": dict(tfs_z=0.9),
    "temperature": dict(temperature=0.6),
    "top_a": dict(top_a=0.3),
    "top_h": dict(top_h=0.4),
    "top_k": dict(top_k=9),
    "top_n_sigma": dict(top_n_sigma=1.0),
    "top_p": dict(top_p=0.8),
    "typical_p": dict(typical_p=0.8),
    "watermarking_config": dict(greenlist_ratio=0.3, bias=2.5),
    "xtc": dict(probability=0.6, threshold=0.02, seed=11),
}
# Its numbers hang on a model's further passes, or on a language and a text that the request compiles.
ELSEWHERE = {"guidance_scale", "grammar", "phases", "think_answer"}


def plugins(kind):
    out, err = ffi.new("char **"), _core.new_error()
    _core.check(_core.library().cdz_plugins_json(_core.runtime(device="cpu").pointer, out, err), err)
    known = [each["id"] for each in json.loads(_core.take_text(out[0])) if each["kind"] == kind]
    # not those that other tests brought: Python's objects, and scripts
    return {each.rsplit(".", 1)[-1]: each for each in known if not each.startswith(("org.cadenza.python.", "org.example."))}


def host_steps(processor, n_new):
    """(ids, logits, scores) of each step of a request with the object's own pipeline and parameters."""
    runtime = processor._rules.runtime
    model = _host(runtime)
    kwargs = {"max_new_tokens": n_new, "eos_token_id": None, **processor._rules.kwargs, "output_scores": True, "output_logits": True}
    if "max_length" in kwargs:
        kwargs["max_new_tokens"] = None
    request = _core.new_struct("cdz_request", model=model._pointer, pipeline=processor._rules.pipeline.pointer)
    text = ffi.new("char[]", json.dumps({"prompt_ids": [PROMPT], "seed": 11, "kwargs": kwargs}).encode())
    request.json = text
    out, err = ffi.new("cdz_result **"), _core.new_error()
    _core.check(_core.library().cdz_generate(runtime.pointer, request, out, err), err)
    result = _core.Result(out[0])
    tensors, row = result.tensors(), result.sequence(0)
    for step in range(n_new):
        if f"logits/{step}" in tensors:
            yield row[: len(PROMPT) + step], result.array(tensors[f"logits/{step}"]), result.array(tensors[f"scores/{step}"])


_opened = {}


def _host(runtime):
    if "host" not in _opened:
        _opened["host"] = cadenza.AutoModelForCausalLM.from_pretrained(DICTIONARY, device="cpu")
    assert _opened["host"]._runtime is runtime
    return _opened["host"]


def check(processor, n_new=7):
    changed = 0
    for ids, logits, scores in host_steps(processor, n_new):
        given = logits.copy()
        got = processor(numpy.array([ids]), given)
        assert numpy.array_equal(got, scores, equal_nan=True)
        assert numpy.array_equal(given, logits)  # inputs stay as they are
        changed += not numpy.array_equal(scores, logits)
    return changed


def test_every_processor_is_tried():
    assert set(PROCESSORS) | ELSEWHERE == set(plugins("processor"))


@pytest.mark.parametrize("name", sorted(PROCESSORS))
def test_processor_as_in_the_host(name):
    given = dict(PROCESSORS[name])
    tokenizer = DICTIONARY if given.pop("tokenizer", False) else None
    processor = inside.processor(name, tokenizer=tokenizer, **given)
    assert check(processor) or name in ("remove_invalid_values", "forced_bos_token_id")
    check(processor, 2)  # the next generation


def test_lua_processor_as_in_the_host(tmp_path):
    file = tmp_path / "odd.lua"
    file.write_text(
        'return cadenza.processor { id = "org.example.odd", version = "1.0.0",\n'
        '  params = { strength = { 2.0, 0, 100, "for each token so far" } },\n'
        "  apply = function(p, ids, row, ctx)\n"
        "    for id = 1, ctx.n_vocab - 1, 2 do row[id] = row[id] - p.strength * #ids end\n"
        "  end }\n"
    )
    assert check(inside.processor(file, strength=0.25)) == 7
    assert check(inside.processor(f"lua:{file}")) == 7
    with pytest.raises(cadenza.CadenzaError, match="strenght"):
        inside.processor(file, strenght=1)(numpy.array([[1]]), SCORES)


def test_processor_of_arrays_and_dtypes():
    processor = inside.processor("repetition_penalty", repetition_penalty=2.0)
    want = [[0.0, 0.5, 2.0]]
    assert processor(numpy.array([[1]]), numpy.array([[0.0, 1.0, 2.0]], numpy.float32)).tolist() == want
    torch = pytest.importorskip("torch")
    half = processor(torch.tensor([[1]]), torch.tensor([[0.0, 1.0, 2.0]], dtype=torch.bfloat16))
    assert half.dtype == torch.bfloat16 and half.tolist() == want


@pytest.mark.parametrize(
    "name, parameters, error",
    [
        ("drry", {}, cadenza.CadenzaError),
        ("dry", dict(multiplyer=1), cadenza.CadenzaError),
        ("dry", dict(multiplier=object()), ValueError),
        ("dry", dict(multiplier="1\n[x]"), ValueError),
        ("guidance_scale", dict(guidance_scale=2.0), cadenza.UnsupportedError),
    ],
)
def test_refused(name, parameters, error):
    with pytest.raises(error):
        inside.processor(name, **parameters)(numpy.array([[1]]), SCORES)


@pytest.mark.parametrize("ids, scores", [
    (numpy.array([1]), SCORES), (numpy.array([[1.0]]), SCORES), (numpy.array([[9]]), SCORES),
    (numpy.array([[-1]]), SCORES), (numpy.array([[1]]), numpy.zeros((2, 9), numpy.float32)), (numpy.zeros((1, 0), int), SCORES),
    (numpy.array([[2**40]]), SCORES),
])  # fmt: skip
def test_bad_rows(ids, scores):
    with pytest.raises(ValueError):
        inside.processor("temperature", temperature=2.0)(ids, scores)


def test_criteria():
    ended = inside.criterion("eos_token_id", eos_token_id=[7, 9])
    assert ended(numpy.array([[1, 7], [7, 1], [1, 9]]), None).tolist() == [True, False, True]
    long = inside.criterion("max_length", max_length=3)
    assert long(numpy.array([[1, 7]]), None).tolist() == [False]
    assert long(numpy.array([[1, 7, 2]]), None).tolist() == [True]
    tokenizer = cadenza.AutoTokenizer.from_pretrained(DICTIONARY)
    ids = tokenizer.encode("river (noun): a large stream")
    stops = inside.criterion("stop_strings", stop_strings=["stream"], tokenizer=tokenizer)
    assert stops(numpy.array([ids]), None).tolist() == [True]
    assert stops(numpy.array([ids[:-1]]), None).tolist() == [False]
    assert set(plugins("criterion")) == {"eos_token_id", "max_length", "max_time", "stop_strings"}
    assert inside.criterion("max_time", max_time=1e-9)(numpy.array([ids]), None).tolist() == [True]
