"""Bad input, made up: an exception of a documented class, or it works; and the model still answers afterwards.

CADENZA_PYTHON_EXAMPLES: examples of each sweep (60).
"""

import os
import pathlib
import threading

import numpy
import pytest

import cadenza

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

PROMPT = [[5, 6, 9]]
GREEDY = dict(do_sample=False, max_new_tokens=3, eos_token_id=None)
DOCUMENTED = (ValueError, TypeError, OSError, cadenza.CadenzaError)
sweep = settings(
    max_examples=int(os.environ.get("CADENZA_PYTHON_EXAMPLES", "60")), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck), database=None,
)  # fmt: skip

anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(-5, 300), st.floats(), st.text(max_size=5), st.binary(max_size=5),
        st.builds(object), st.sampled_from([len, int, Ellipsis, 1j, b"", numpy.float32("nan"), numpy.int64(2**62), pathlib.Path("/")]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.text(max_size=3), st.integers()), inner, max_size=3), st.tuples(inner, inner)),
    max_leaves=6,
)  # fmt: skip
ids = st.integers(-3, 260)
DTYPES = ["int8", "int32", "int64", "uint8", "uint64", "float32", "float64", "bool", "complex64", "U3", "object", "datetime64[s]"]


@st.composite
def arrays(draw):
    shape = draw(st.lists(st.integers(0, 3), max_size=4))
    values = numpy.array(draw(st.lists(ids, min_size=int(numpy.prod(shape)), max_size=int(numpy.prod(shape)))), object)
    made = values.reshape(shape)
    try:
        made = made.astype(draw(st.sampled_from(DTYPES)))
    except (ValueError, TypeError, OverflowError):
        pass
    return draw(st.sampled_from([made, made.T, made[..., ::-1] if made.ndim else made]))


prompts = st.one_of(
    st.lists(st.lists(ids, max_size=4), max_size=3), st.lists(st.one_of(ids, st.lists(ids, max_size=3)), max_size=4), arrays(), anything
)  # fmt: skip


@pytest.fixture
def unharmed(llama):
    """The model answers afterwards as before."""
    want = llama.generate(PROMPT, **GREEDY)
    yield llama
    assert llama.generate(PROMPT, **GREEDY) == want


def works_or_says(call):
    try:
        call()
    except DOCUMENTED as error:
        assert str(error)


@sweep
@given(prompt=prompts, mask=st.one_of(st.none(), prompts))
def test_prompts_and_masks(unharmed, prompt, mask):
    works_or_says(lambda: unharmed.generate(prompt, attention_mask=mask, **GREEDY))
    works_or_says(lambda: unharmed(prompt, attention_mask=mask))
    works_or_says(lambda: unharmed.sequence(prompt))
    works_or_says(lambda: unharmed.generate_batch(prompt, **GREEDY))


@sweep
@given(name=st.sampled_from(sorted(cadenza.GenerationConfig().to_dict())), value=anything)
def test_parameters(unharmed, name, value):
    hypothesis.assume(name not in ("max_new_tokens", "max_length", "min_length", "min_new_tokens", "max_time"))
    works_or_says(lambda: unharmed.generate(PROMPT, **{**GREEDY, name: value}))
    works_or_says(lambda: cadenza.GenerationConfig(**{name: value}).validate(strict=True))


@sweep
@given(name=st.sampled_from(["max_new_tokens", "max_length", "min_length", "min_new_tokens", "max_time"]), value=anything)
def test_lengths(unharmed, name, value):
    hypothesis.assume(not isinstance(value, (int, float)) or not 40 < value < 2**31)
    works_or_says(lambda: unharmed.generate(PROMPT, do_sample=False, **{"max_new_tokens": 2, name: value}))


ARGUMENTS = (
    "logits_processor stopping_criteria prefix_allowed_tokens_fn assistant_model streamer negative_prompt_ids custom_generate "
    "inputs_embeds past_key_values decoder_input_ids tokenizer assistant_tokenizer seed generation_config drafter observers pipeline"
).split()


@sweep
@given(name=st.sampled_from(ARGUMENTS), value=anything)
def test_arguments(unharmed, name, value):
    hypothesis.assume(value is not len)
    try:
        unharmed.generate(PROMPT, **{**GREEDY, name: value})
    except (*DOCUMENTED, AttributeError) as error:  # a streamer without put, a config that is none: as in transformers
        assert str(error)


@sweep
@given(answer=st.one_of(anything, arrays()), torch_like=st.booleans())
def test_answers_of_callbacks(unharmed, answer, torch_like):
    works_or_says(lambda: unharmed.generate(PROMPT, logits_processor=[lambda i, s: answer], **GREEDY))
    works_or_says(lambda: unharmed.generate(PROMPT, stopping_criteria=[lambda i, s: answer], **GREEDY))
    works_or_says(lambda: unharmed.generate(PROMPT, prefix_allowed_tokens_fn=lambda b, i: answer, **GREEDY))
    works_or_says(lambda: unharmed.generate(PROMPT, drafter=lambda i, room: answer, **GREEDY))
    works_or_says(lambda: unharmed.generate(PROMPT, custom_generate=lambda *args, **kwargs: answer, **GREEDY))


@sweep
@given(logits=st.one_of(arrays(), anything), temperature=anything, top_k=anything, top_p=anything)
def test_sampling(logits, temperature, top_k, top_p):
    works_or_says(lambda: cadenza.sample(logits))
    works_or_says(lambda: cadenza.sample([0.5, 1.0], temperature=temperature, seed=1))
    works_or_says(lambda: cadenza.sample([0.5, 1.0], top_k=top_k, top_p=top_p, seed=1))


@sweep
@given(text=st.one_of(st.text(max_size=20), anything), options=st.fixed_dictionaries({}, optional={"max_length": anything, "padding": anything, "truncation": anything}))
def test_texts(tokenizer, text, options):
    works_or_says(lambda: tokenizer(text, **options))
    works_or_says(lambda: tokenizer.decode(text))
    works_or_says(lambda: tokenizer.apply_chat_template(text))


@sweep
@given(sequences=prompts, scores=st.one_of(st.lists(arrays(), max_size=3), anything), indices=st.one_of(st.none(), prompts))
def test_transition_scores(llama, sequences, scores, indices):
    works_or_says(lambda: llama.compute_transition_scores(sequences, scores, indices))


def test_closed_and_freed_objects(golden):
    model = cadenza.Model.from_pretrained(golden("gpt2"))
    out = model.generate(PROMPT, return_dict_in_generate=True, output_scores=True, **GREEDY)
    sequence, cache = model.sequence([5, 6]), out.past_key_values
    model.close()
    for call in (
        lambda: model.generate(PROMPT, **GREEDY), lambda: model(PROMPT), lambda: model.forward([sequence]), lambda: model.score([5, 6]),
        lambda: model.explain(), lambda: model.generate(out.sequences, past_key_values=cache, **GREEDY),
        lambda: model.generate_batch(PROMPT, **GREEDY), lambda: list(model.stream(PROMPT, **GREEDY)), model.init_continuous_batching().start,
    ):  # fmt: skip
        with pytest.raises(cadenza.CadenzaError):
            call()
    assert out.scores[0].shape[0] == 1
    model.close()


def test_threads_that_cancel_and_raise(llama):
    """Threads that generate, raise and cancel at once: each gets its own answer or its own exception."""
    want = [llama.generate([[5, 6, 7 + i]], **GREEDY) for i in range(6)]
    wrong = []

    class Mine(Exception):
        pass

    def fails(number):
        def processor(ids, scores):
            raise Mine(number)

        return processor

    def work(i):
        for turn in range(8):
            if (i + turn) % 3 == 0:
                try:
                    llama.generate([[5, 6, 7 + i]], logits_processor=[fails(i)], **GREEDY)
                    wrong.append("no exception")
                except Mine as error:
                    if error.args != (i,):
                        wrong.append(error)
            elif llama.generate([[5, 6, 7 + i]], **GREEDY) != want[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
