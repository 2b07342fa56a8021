"""The same user code over transformers and over Cadenza, only the module differs; every field of every answer is compared.

Each case is a function of (hf, load, ids): `hf` is the module, `load(name)` opens a model, and what it returns is compared:
tensors with a tolerance for floats, everything else exactly. Kinds and types of arrays must be equal too.
"""

import json
import math
import pathlib
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import cadenza  # noqa: E402
from conftest import DICTIONARY  # noqa: E402

GREEDY = dict(do_sample=False, max_new_tokens=7, eos_token_id=None)
EVERYTHING = dict(
    return_dict_in_generate=True, output_scores=True, output_logits=True, output_attentions=True, output_hidden_states=True
)
DECODERS = ["gpt2", "llama_gqa", "qwen3"]
ENCODERS = ["t5_gated", "bart"]


def rows(n=2, length=6, seed=0, vocab=200):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, vocab, (n, length), generator=generator)


class Plus(object):
    """A processor that needs nothing of either module."""

    def __init__(self, token, amount):
        self.token, self.amount = token, amount

    def __call__(self, input_ids, scores):
        assert isinstance(input_ids, torch.Tensor) and isinstance(scores, torch.Tensor)
        assert input_ids.dtype == torch.long and scores.dtype == torch.float32
        scores[:, self.token] += self.amount * (input_ids[:, -1] % 3)
        return scores


def fresh(processor):
    """The same, not in place."""

    def call(input_ids, scores):
        return processor(input_ids, scores.clone()) * 1.0

    return call


class Recorder:
    """A streamer, or a list of what callbacks saw."""

    def __init__(self):
        self.seen = []

    def put(self, value):
        self.seen.append(value.clone())

    def end(self):
        self.seen.append("end")


def mask_of(ids, hidden=2):
    mask = torch.ones_like(ids)
    mask[0, :hidden] = 0
    return mask


def names_given(model, input_ids, **kwargs):
    return sorted(kwargs), kwargs["position_ids"], kwargs["attention_mask"]


def both(case):
    return case


DECODER_CASES = {
    "greedy": lambda hf, m, ids: m.generate(ids, **GREEDY),
    "by name": lambda hf, m, ids: m.generate(input_ids=ids, **GREEDY),
    "int32": lambda hf, m, ids: m.generate(ids.int(), **GREEDY),
    "mask": lambda hf, m, ids: m.generate(ids, attention_mask=mask_of(ids), **GREEDY),
    "mask of bools": lambda hf, m, ids: m.generate(ids, attention_mask=mask_of(ids).bool(), **GREEDY),
    "everything": lambda hf, m, ids: m.generate(ids, **GREEDY, **EVERYTHING),
    "everything, one row": lambda hf, m, ids: m.generate(ids[:1], **GREEDY, **EVERYTHING),
    "scores without dict": lambda hf, m, ids: m.generate(ids, **GREEDY, output_scores=True),
    "beams": lambda hf, m, ids: m.generate(ids, num_beams=3, **GREEDY, return_dict_in_generate=True, output_scores=True, output_logits=True),
    "beams without scores": lambda hf, m, ids: m.generate(ids, num_beams=3, **GREEDY, return_dict_in_generate=True),
    "beams, attentions": lambda hf, m, ids: m.generate(ids, num_beams=2, **GREEDY, **EVERYTHING),
    "beams, several": lambda hf, m, ids: m.generate(ids, num_beams=4, num_return_sequences=3, length_penalty=0.5, early_stopping=True, **GREEDY),
    "beams, end": lambda hf, m, ids: m.generate(ids, num_beams=3, max_new_tokens=9, do_sample=False, eos_token_id=list(range(3, 80)), pad_token_id=0, return_dict_in_generate=True, output_scores=True),
    "an end": lambda hf, m, ids: m.generate(ids, max_new_tokens=9, do_sample=False, eos_token_id=list(range(3, 90)), pad_token_id=1),
    "penalties": lambda hf, m, ids: m.generate(ids, repetition_penalty=1.3, no_repeat_ngram_size=2, suppress_tokens=[5, 6], **GREEDY),
    "biases": lambda hf, m, ids: m.generate(ids, bad_words_ids=[[7], [8, 9]], sequence_bias={(11,): 1.5, (12, 13): -2.0}, min_length=8, **GREEDY),
    "decay": lambda hf, m, ids: m.generate(ids, max_new_tokens=8, do_sample=False, eos_token_id=3, pad_token_id=0, exponential_decay_length_penalty=(2, 1.6), min_new_tokens=3),
    "guidance": lambda hf, m, ids: m.generate(ids[:1], guidance_scale=1.5, negative_prompt_ids=ids[1:, :4], **GREEDY),
    "config": lambda hf, m, ids: m.generate(ids, generation_config=hf.GenerationConfig(**GREEDY, repetition_penalty=1.2)),
    "config and call": lambda hf, m, ids: m.generate(ids, generation_config=hf.GenerationConfig(max_new_tokens=3, do_sample=False), max_new_tokens=5, eos_token_id=None),
    "processor": lambda hf, m, ids: m.generate(ids, logits_processor=[Plus(9, 2.0)], **GREEDY),
    "processor, new": lambda hf, m, ids: m.generate(ids, logits_processor=[fresh(Plus(9, 2.0))], **GREEDY, return_dict_in_generate=True, output_scores=True, output_logits=True),
    "processor list": lambda hf, m, ids: m.generate(ids, logits_processor=hf.LogitsProcessorList([Plus(9, 2.0), Plus(10, 3.0)]), **GREEDY),
    "processor, beams": lambda hf, m, ids: m.generate(ids, num_beams=3, logits_processor=[fresh(Plus(9, 1.0))], **GREEDY, return_dict_in_generate=True, output_scores=True),
    "processor, half": lambda hf, m, ids: m.generate(ids, logits_processor=[lambda i, s: s.double()], **GREEDY),
    "criterion": lambda hf, m, ids: m.generate(ids, stopping_criteria=[lambda i, s, **k: i.shape[1] >= 9], **GREEDY),
    "criterion, rows": lambda hf, m, ids: m.generate(ids, stopping_criteria=[lambda i, s, **k: i[:, -1] % 2 == 0], max_new_tokens=9, do_sample=False, eos_token_id=3, pad_token_id=0),
    "criterion list": lambda hf, m, ids: m.generate(ids, stopping_criteria=hf.StoppingCriteriaList([hf.MaxLengthCriteria(8)]), **GREEDY),
    "prefix function": lambda hf, m, ids: m.generate(ids, prefix_allowed_tokens_fn=lambda row, i: [20 + row, 30 + len(i)], **GREEDY),
    "prefix function, beams": lambda hf, m, ids: m.generate(ids, num_beams=2, prefix_allowed_tokens_fn=lambda row, i: [20 + row, 30 + len(i), 40], **GREEDY),
    "prefix function, forced end": lambda hf, m, ids: m.generate(ids, prefix_allowed_tokens_fn=lambda row, i: [20 + row, 30 + len(i)], max_new_tokens=5, do_sample=False, eos_token_id=3, pad_token_id=0, forced_eos_token_id=3),
    "prefix function, forced beginning": lambda hf, m, ids: m.generate(ids[:, :1], prefix_allowed_tokens_fn=lambda row, i: [20, 30 + len(i)], forced_bos_token_id=9, suppress_tokens=[20], logits_processor=[Plus(9, 2.0)], **GREEDY, **EVERYTHING),
    "prefix function, decay, beams": lambda hf, m, ids: m.generate(ids, num_beams=2, prefix_allowed_tokens_fn=lambda row, i: [20 + row, 30 + len(i), 40, 3], max_new_tokens=8, do_sample=False, eos_token_id=3, pad_token_id=0, exponential_decay_length_penalty=(2, 1.3), return_dict_in_generate=True, output_scores=True),
    "prefix function, own loop": lambda hf, m, ids: m.generate(ids, custom_generate=own_loop, prefix_allowed_tokens_fn=lambda row, i: [20 + row, 30 + len(i)], forced_eos_token_id=3, max_new_tokens=6, do_sample=False, eos_token_id=3, pad_token_id=0),
    "sampled": lambda hf, m, ids: (torch.manual_seed(5), m.generate(ids, do_sample=True, temperature=0.9, top_k=20, top_p=0.9, max_new_tokens=8, eos_token_id=None))[1],
    "sampled, several": lambda hf, m, ids: (torch.manual_seed(6), m.generate(ids, do_sample=True, num_return_sequences=3, min_p=0.01, max_new_tokens=6, eos_token_id=None))[1],
    "sampled, processor": lambda hf, m, ids: (torch.manual_seed(7), m.generate(ids, do_sample=True, logits_processor=[Plus(9, 2.0)], max_new_tokens=6, eos_token_id=None, return_dict_in_generate=True, output_scores=True))[1],
    "beam sample": lambda hf, m, ids: (torch.manual_seed(8), m.generate(ids, do_sample=True, num_beams=3, max_new_tokens=6, eos_token_id=None))[1],
    "lookup": lambda hf, m, ids: m.generate(torch.cat([ids[:1], ids[:1], ids[:1]], 1), prompt_lookup_num_tokens=3, max_new_tokens=8, do_sample=False, eos_token_id=3),
    "transitions": lambda hf, m, ids: transitions(m, m.generate(ids, **GREEDY, return_dict_in_generate=True, output_scores=True)),
    "transitions, beams": lambda hf, m, ids: transitions(m, m.generate(ids, num_beams=3, **GREEDY, return_dict_in_generate=True, output_scores=True)),
    "continued": lambda hf, m, ids: continued(m, ids),
    "embeddings": lambda hf, m, ids: m.generate(inputs_embeds=embeddings(m, ids), attention_mask=torch.ones_like(ids), **GREEDY),
    "embeddings, no cache": lambda hf, m, ids: m.generate(inputs_embeds=embeddings(m, ids), use_cache=False, **GREEDY, return_dict_in_generate=True, output_scores=True),
    "embeddings, streamer": lambda hf, m, ids: streamed(m, ids[:, :0], inputs_embeds=embeddings(m, ids)),
    "forward": lambda hf, m, ids: m(input_ids=ids).logits,
    "forward, pads": lambda hf, m, ids: m(input_ids=torch.cat([ids, torch.tensor([[0, 0], [5, 0]])], 1)).logits,
    "loop": lambda hf, m, ids: loop(m, ids),
    "loop, pads": lambda hf, m, ids: loop(m, torch.tensor([[9, 0, 7, 0], [0, 9, 5, 0]]), 0),
    "custom_generate, config": lambda hf, m, ids: m.generate(ids, custom_generate=config_given, **GREEDY),
    "no ids": lambda hf, m, ids: m.generate(**GREEDY),
    "mask of floats": lambda hf, m, ids: m.generate(ids, attention_mask=mask_of(ids).float(), **GREEDY),
    "custom_generate, names": lambda hf, m, ids: m.generate(ids, attention_mask=mask_of(ids), custom_generate=names_given, **GREEDY),
    "custom_generate": lambda hf, m, ids: m.generate(ids, custom_generate=own_loop, **GREEDY),
    "custom_generate, processors": lambda hf, m, ids: m.generate(ids, custom_generate=own_loop, logits_processor=[Plus(9, 2.0)], repetition_penalty=1.3, **GREEDY),
    "custom_generate, everything": lambda hf, m, ids: m.generate(ids, custom_generate=own_loop, do_sample=True, max_new_tokens=7, eos_token_id=3, pad_token_id=0, sequence_bias={(9,): 1.0}, bad_words_ids=[[8]], encoder_repetition_penalty=1.2, encoder_no_repeat_ngram_size=2, exponential_decay_length_penalty=(2, 1.1), begin_suppress_tokens=[6], min_new_tokens=2, temperature=0.8, top_h=0.9, top_k=30, top_p=0.95, min_p=0.001, typical_p=0.9, epsilon_cutoff=0.0001, eta_cutoff=0.0001, renormalize_logits=True),
    "streamer": lambda hf, m, ids: streamed(m, ids[:1]),
    "streamer, rows": lambda hf, m, ids: streamed(m, ids),
    "streamer, beam sample": lambda hf, m, ids: streamed(m, ids, do_sample=True, num_beams=3, num_return_sequences=2),
    "what callbacks see": lambda hf, m, ids: seen(m, ids),
    "max_length": lambda hf, m, ids: m.generate(ids, max_length=9, do_sample=False, eos_token_id=None),
}  # fmt: skip


def embeddings(model, ids):
    """Made up, the same for both."""
    width = getattr(model.config, "hidden_size", None) or model.config.n_embd
    return torch.randn(*ids.shape, width, generator=torch.Generator().manual_seed(1))


def transitions(model, out):
    indices = out.get("beam_indices")
    return [model.compute_transition_scores(out.sequences, out.scores, indices, normalize_logits=n) for n in (False, True)]


def continued(model, ids):
    first = model.generate(ids, **GREEDY, return_dict_in_generate=True)
    cache = first.past_key_values
    length = cache.get_seq_length()
    more = torch.cat([first.sequences, ids[:, :2]], 1)
    return length, model.generate(more, past_key_values=cache, **GREEDY), cache.get_seq_length()


def config_given(model, input_ids, generation_config, **kwargs):
    return generation_config.max_length, generation_config.pad_token_id, generation_config.eos_token_id, generation_config.do_sample


def loop(model, ids, forced=None):
    """A decode loop by hand: the prompt, then a token at a time."""
    out = model(input_ids=ids, use_cache=True)
    logits = [out.logits]
    for _ in range(4):
        ids = out.logits[:, -1:].argmax(-1)
        ids = ids if forced is None else torch.full_like(ids, forced)
        out = model(input_ids=ids, past_key_values=out.past_key_values, use_cache=True)
        logits.append(out.logits)
    return logits


def own_loop(model, input_ids, logits_processor, stopping_criteria, generation_config, attention_mask=None, past_key_values=None, **kwargs):
    done = torch.zeros(input_ids.shape[0], dtype=torch.bool)
    new = input_ids
    while not done.all():
        out = model(input_ids=new, attention_mask=attention_mask, past_key_values=past_key_values, use_cache=True)
        scores = logits_processor(input_ids, out.logits[:, -1].clone())
        new = scores.argmax(-1, keepdim=True)
        input_ids = torch.cat([input_ids, new], 1)
        attention_mask = torch.cat([attention_mask, torch.ones_like(new)], 1)
        done = done | stopping_criteria(input_ids, None)
    return input_ids


def streamed(model, ids, **kwargs):
    recorder = Recorder()
    torch.manual_seed(9)
    given = {**dict(max_new_tokens=8, do_sample=False, eos_token_id=list(range(3, 60)), pad_token_id=0), **kwargs}
    answer = model.generate(ids, streamer=recorder, **given)
    return recorder.seen, answer


def seen(model, ids):
    seen = []

    def look(input_ids, scores):
        seen.append((input_ids.clone(), scores.clone()))
        return scores

    def ask(input_ids, scores, **kwargs):
        seen.append(input_ids.clone())
        return False

    model.generate(ids, logits_processor=[look], stopping_criteria=[ask], **GREEDY)
    return seen


ENCODER_CASES = {
    "greedy": lambda hf, m, ids: m.generate(ids, **GREEDY),
    "everything": lambda hf, m, ids: m.generate(ids, **GREEDY, **EVERYTHING),
    "beams": lambda hf, m, ids: m.generate(ids, num_beams=3, **GREEDY, **EVERYTHING),
    "decoder ids": lambda hf, m, ids: m.generate(ids, decoder_input_ids=torch.tensor([[0, 5], [0, 6]]), **GREEDY),
    "mask": lambda hf, m, ids: m.generate(ids, attention_mask=mask_of(ids).flip(1), **GREEDY),
    "streamer": lambda hf, m, ids: streamed(m, ids),
    "streamer, decoder ids": lambda hf, m, ids: streamed(m, ids, decoder_input_ids=torch.tensor([[11, 5], [12, 6]])),
    "streamer, several starts": lambda hf, m, ids: streamed(m, ids, decoder_start_token_id=[4, 5], do_sample=True, num_return_sequences=2),
    "streamer, a start that is there": lambda hf, m, ids: streamed(m, ids, decoder_start_token_id=4, decoder_input_ids=torch.tensor([[4, 5], [12, 6]])),
    "streamer, beam sample": lambda hf, m, ids: streamed(m, ids, do_sample=True, num_beams=2),
    "prefix function": lambda hf, m, ids: m.generate(ids, prefix_allowed_tokens_fn=lambda row, i: [20 + row, 30 + len(i)], max_new_tokens=5, do_sample=False),
    "sampled": lambda hf, m, ids: (torch.manual_seed(5), m.generate(ids, do_sample=True, top_k=20, max_new_tokens=8, eos_token_id=None))[1],
    "processor": lambda hf, m, ids: m.generate(ids, logits_processor=[Plus(9, 2.0)], **GREEDY),
    "penalties": lambda hf, m, ids: m.generate(ids[:1], encoder_repetition_penalty=1.4, encoder_no_repeat_ngram_size=2, **GREEDY),
}  # fmt: skip


def compare(theirs, ours, where="answer"):
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, torch.Tensor), f"{where}: {type(ours)}"
        assert ours.dtype == theirs.dtype, f"{where}: {ours.dtype}, expected {theirs.dtype}"
        assert ours.shape == theirs.shape, f"{where}: shape {tuple(ours.shape)}, expected {tuple(theirs.shape)}"
        if theirs.is_floating_point():
            torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=2e-4, equal_nan=True, msg=lambda text: f"{where}: {text}")
        else:
            assert torch.equal(ours, theirs), f"{where}: {ours.tolist()}, expected {theirs.tolist()}"
    elif hasattr(theirs, "dtype"):
        assert ours.dtype == theirs.dtype and ours.tolist() == theirs.tolist(), f"{where}: {ours}, expected {theirs}"
    elif isinstance(theirs, dict):
        assert type(ours).__name__ == type(theirs).__name__, where
        assert list(ours.keys()) == list(theirs.keys()), f"{where}: {list(ours)}, expected {list(theirs)}"
        for name in theirs:
            if name != "past_key_values":
                compare(theirs[name], ours[name], f"{where}.{name}")
            else:
                assert ours[name].get_seq_length() == theirs[name].get_seq_length(), f"{where}: cache"
    elif isinstance(theirs, (list, tuple)):
        assert type(theirs) is type(ours) and len(theirs) == len(ours), f"{where}: {len(ours)}, expected {len(theirs)}"
        for i, (a, b) in enumerate(zip(theirs, ours)):
            compare(a, b, f"{where}[{i}]")
    elif isinstance(theirs, float):
        assert math.isclose(theirs, ours, rel_tol=1e-4), where
    else:
        assert theirs == ours, f"{where}: {ours}, expected {theirs}"


_theirs, _ours = {}, {}


def models(golden, name, encoder):
    if name not in _theirs:
        auto = "AutoModelForSeq2SeqLM" if encoder else "AutoModelForCausalLM"
        model = getattr(transformers, auto).from_pretrained(golden(name), dtype=torch.float32, attn_implementation="eager")
        _theirs[name] = model.eval()
        _ours[name] = getattr(cadenza, auto).from_pretrained(golden(name), dtype=torch.float32)
    return _theirs[name], _ours[name]


def run(case, golden, name, encoder, ids):
    theirs, ours = models(golden, name, encoder)
    with torch.no_grad():
        want = case(transformers, theirs, ids)
    compare(want, case(cadenza, ours, ids))


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("case", DECODER_CASES, ids=str)
def test_decoder(golden, name, case):
    run(DECODER_CASES[case], golden, name, False, rows())


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("case", ENCODER_CASES, ids=str)
def test_encoder(golden, name, case):
    run(ENCODER_CASES[case], golden, name, True, rows())


COMMON = dict(max_new_tokens=10, eos_token_id=2, pad_token_id=0, suppress_tokens=[0, 1, 2, 3, *range(98, 224), *range(225, 260)])
OTHER_TOKENIZERS = {
    "greedy": dict(), "mask": dict(attention_mask=torch.ones(1, 9, dtype=torch.long)), "an end": dict(eos_token_id=list(range(3, 90, 3))),
    "min_new_tokens": dict(eos_token_id=list(range(3, 90, 3)), min_new_tokens=4), "length": dict(max_new_tokens=None, max_length=13),
    "fields": dict(return_dict_in_generate=True, output_scores=True, output_logits=True), "lookbehind": dict(assistant_lookbehind=3, target_lookbehind=2),
    "penalty": dict(repetition_penalty=1.4), "ngrams": dict(no_repeat_ngram_size=2), "beams": dict(num_beams=2),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHER_TOKENIZERS, ids=str)
def test_assistants_with_another_tokenizer(golden, case):
    """Each with an assistant of its own: transformers' keeps the head that it was given, in whatever state an error left it."""
    ids, made = torch.tensor([[90, 261, 81, 322, 270, 72, 321, 262, 280]]), []
    for hf, model in zip((transformers, cadenza), models(golden, "llama_gqa", False)):
        assistant = hf.AutoModelForCausalLM.from_pretrained(golden("llama_uad_draft"), dtype=torch.float32)
        tokenizers = [hf.AutoTokenizer.from_pretrained(golden(name)) for name in ("llama_gqa", "llama_uad_draft")]
        given = dict(do_sample=False, **COMMON, assistant_model=assistant, tokenizer=tokenizers[0], assistant_tokenizer=tokenizers[1])
        with torch.no_grad():
            made.append(model.generate(ids, **{**given, **OTHER_TOKENIZERS[case]}))
    compare(*made)
    with pytest.raises(ValueError, match="assistant_tokenizer: expected a tokenizer, found int"):
        model.generate(ids, **{**given, "assistant_tokenizer": 3})


ERRORS = {
    "unknown name": dict(temprature=0.5),
    "two ids": dict(input_ids=rows()),
    "no new tokens": dict(max_new_tokens=0),
    "too many sequences": dict(num_return_sequences=3, num_beams=2),
    "greedy sequences": dict(num_return_sequences=3, do_sample=False),
    "temperature": dict(do_sample=True, temperature=-1.0),
    "top_p": dict(do_sample=True, top_p=-0.5),
    "tuples": dict(past_key_values=((1, 2),)),
    "streamer and beams": dict(streamer=Recorder(), num_beams=2),
    "early stopping": dict(early_stopping="sometimes", num_beams=2),
}


@pytest.mark.parametrize("case", ERRORS, ids=str)
def test_errors(golden, case):
    for model in models(golden, "gpt2", False):
        with pytest.raises(ValueError):
            model.generate(rows(), **ERRORS[case])


CLEANED = "a dog , it 's ."
CHAT = [{"role": "user", "content": "What does river mean?"}]
PIPES = {
    "a text": ("river (noun):", dict()), "texts": (["river (noun):", "dog (noun): a"], dict(batch_size=2)), "the answer": ("river (noun):", dict(return_full_text=False)),
    "ids": (["river (noun):", "dog"], dict(return_tensors=True, batch_size=2)), "no ids": ("river (noun):", dict(return_tensors=False)),
    "cleaned": (CLEANED, dict()), "not cleaned": (CLEANED, dict(clean_up_tokenization_spaces=False)), "cleaned answer": (CLEANED, dict(return_full_text=False)),
    "cut": ("river (noun): a large", dict(truncation=True, max_length=4, max_new_tokens=None)), "padded": (["river (noun):", "a"], dict(padding=True)),
    "cut by its length": ("river (noun): a large", dict(max_length=4, max_new_tokens=None)), "special": ("river<|end|> a", dict(skip_special_tokens=False)),
    "without special tokens": ("river (noun):", dict(add_special_tokens=False)), "encode": ("river (noun): a", dict(tokenizer_encode_kwargs=dict(truncation=True, max_length=2))),
    "a chat": (CHAT, dict()), "a cut chat": (CHAT, dict(tokenizer_encode_kwargs=dict(truncation=True, max_length=4))), "a chat with tools": (CHAT, dict(tools=[], documents=[])),
    "a chat to go on": ([*CHAT, {"role": "assistant", "content": "A river is"}], dict()), "several": ("river (noun):", dict(num_beams=3, num_return_sequences=2)),
    "a prefix": ("(noun):", dict(prefix="river ")), "a stop": ("river (noun):", dict(stop_sequence=" of")), "a hole": ("a " * 40, dict(handle_long_generation="hole", max_new_tokens=490)),
}  # fmt: skip


@pytest.fixture(scope="module")
def pipes():
    made = []
    for hf in (transformers, cadenza):
        model = hf.AutoModelForCausalLM.from_pretrained(DICTIONARY, dtype=torch.float32)
        made.append(hf.pipeline("text-generation", model=model, tokenizer=hf.AutoTokenizer.from_pretrained(DICTIONARY)))
    return made


@pytest.mark.parametrize("case", PIPES, ids=str)
def test_pipelines(pipes, case):
    inputs, options = PIPES[case]
    given = {**dict(do_sample=False, max_new_tokens=5), **options}
    compare(*(pipe(inputs, **{name: value for name, value in given.items() if value is not None}) for pipe in pipes))
    assert str(pipes[0].device) == str(pipes[1].device)


@pytest.mark.parametrize("options", [dict(return_full_text=True, return_tensors=True), dict(return_text=True, return_tensors=True), dict(return_text=True, return_full_text=False),
                                     dict(handle_long_generation="cut"), dict(handle_long_generation="hole", max_new_tokens=600), dict(temprature=1.0)])  # fmt: skip
def test_pipelines_refuse(pipes, options):
    for pipe in pipes:
        with pytest.raises(ValueError):
            pipe("river (noun):", **{**dict(do_sample=False, max_new_tokens=5), **options})


@pytest.mark.parametrize("answer", [None, "no"])
def test_criteria_say_bools(golden, answer):
    for model in models(golden, "gpt2", False):
        with pytest.raises(TypeError):
            model.generate(rows(), stopping_criteria=[lambda ids, scores: answer], **GREEDY)


def test_nothing_to_draw(golden):
    for hf, model in zip((transformers, cadenza), models(golden, "gpt2", False)):
        with pytest.raises(RuntimeError):
            model.generate(rows(), do_sample=True, max_new_tokens=3, logits_processor=[lambda i, s: s - math.inf])
    with pytest.raises(ValueError, match="probabilities hold nan, inf, a negative value or only zeros") as caught:
        model.generate(rows(), do_sample=True, max_new_tokens=3, logits_processor=[lambda i, s: s - math.inf])
    assert isinstance(caught.value, cadenza.ProbabilityError)


WARNED = {
    "least length of a decoder with its start": ("bart", dict(min_length=8, max_new_tokens=5, decoder_input_ids=torch.tensor([[11, 5], [12, 6]])), 0),
    "one more": ("bart", dict(min_length=9, max_new_tokens=5, decoder_input_ids=torch.tensor([[11, 5], [12, 6]])), 1),
    "two least lengths": ("gpt2", dict(min_length=30, min_new_tokens=2, max_new_tokens=5), 0),
    "the encoder's penalty": ("gpt2", dict(encoder_repetition_penalty=1.4, max_new_tokens=2), 0),
    "the encoder's ngrams": ("gpt2", dict(encoder_no_repeat_ngram_size=2, max_new_tokens=2), 0),
    "the encoder's penalty, of embeddings": ("gpt2", dict(encoder_repetition_penalty=1.4, inputs_embeds=True, max_new_tokens=2), 1),
    "the encoder's ngrams, of embeddings": ("gpt2", dict(encoder_no_repeat_ngram_size=2, inputs_embeds=True, max_new_tokens=2), 1),
}


@pytest.mark.parametrize("case", WARNED, ids=str)
def test_warnings(golden, case):
    name, given, warned = WARNED[case]
    made = []
    for model in models(golden, name, name in ENCODERS):
        kwargs = dict(given, do_sample=False)
        inputs = (rows(),)
        if kwargs.pop("inputs_embeds", False):
            inputs, kwargs["inputs_embeds"] = (), embeddings(model, rows())
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            made.append(model.generate(*inputs, **kwargs))
        assert len([each for each in seen if each.category is UserWarning]) == warned, [str(each.message) for each in seen]
    compare(*made)


CONFIGS = [
    dict(), dict(max_new_tokens=3), dict(num_beams=2, do_sample=True), dict(num_beams=2, num_beam_groups=2, diversity_penalty=0.1),
    dict(penalty_alpha=0.6, top_k=4), dict(dola_layers="low"), dict(prompt_lookup_num_tokens=3), dict(mine=[1, 2], eos_token_id=[1, 2]),
    dict(watermarking_config=dict(bias=3.0)), dict(sequence_bias={(1, 2): 3.0}), dict(force_words_ids=[[1]], num_beams=2),
]  # fmt: skip


@pytest.mark.parametrize("values", CONFIGS, ids=str)
def test_configs(values, tmp_path):
    theirs, ours = transformers.GenerationConfig(**values), cadenza.GenerationConfig(**values)
    assert ours.get_generation_mode() == theirs.get_generation_mode().value
    assert ours.to_json_string() == theirs.to_json_string()
    assert ours.to_json_string(use_diff=False) == theirs.to_json_string(use_diff=False)
    assert set(ours.to_dict()) == set(theirs.to_dict())
    if values.get("penalty_alpha"):
        return  # top_k without do_sample is not saved by either
    theirs.save_pretrained(tmp_path / "theirs")
    ours.save_pretrained(tmp_path / "ours")
    for folder in ("theirs", "ours"):
        assert (tmp_path / folder / "generation_config.json").read_text() == (tmp_path / "theirs" / "generation_config.json").read_text()
        if "sequence_bias" not in values:
            assert cadenza.GenerationConfig.from_pretrained(tmp_path / folder) == ours


# -- processors and criteria by hand ------------------------------------------------------------------------------

IDS = torch.tensor([[3, 7, 5, 3, 7], [9, 9, 2, 8, 9]])
BY_HAND = {
    "temperature": lambda hf: hf.TemperatureLogitsWarper(0.7),
    "top_k": lambda hf: hf.TopKLogitsWarper(3),
    "top_k, all": lambda hf: hf.TopKLogitsWarper(99, min_tokens_to_keep=2),
    "top_p": lambda hf: hf.TopPLogitsWarper(0.6, min_tokens_to_keep=2),
    "top_p, zero": lambda hf: hf.TopPLogitsWarper(0.0),
    "top_h": lambda hf: hf.TopHLogitsWarper(0.4),
    "min_p": lambda hf: hf.MinPLogitsWarper(0.2, min_tokens_to_keep=3),
    "typical": lambda hf: hf.TypicalLogitsWarper(0.5),
    "typical, some": lambda hf: hf.TypicalLogitsWarper(0.2, min_tokens_to_keep=4),
    "epsilon": lambda hf: hf.EpsilonLogitsWarper(0.05, min_tokens_to_keep=2),
    "eta": lambda hf: hf.EtaLogitsWarper(0.1),
    "an end as a bad word": lambda hf: hf.NoBadWordsLogitsProcessor([[2]], 2),
    "repetition": lambda hf: hf.RepetitionPenaltyLogitsProcessor(1.7),
    "encoder repetition": lambda hf: hf.EncoderRepetitionPenaltyLogitsProcessor(1.7, IDS[:, :3]),
    "repetition, prompt ignored": lambda hf: hf.RepetitionPenaltyLogitsProcessor(1.7, prompt_ignore_length=3),
    "codebooks": lambda hf: hf.AlternatingCodebooksLogitsProcessor(3, 4, 5),
    "codebooks, second": lambda hf: hf.AlternatingCodebooksLogitsProcessor(2, 4, 5),
    "ngrams": lambda hf: hf.NoRepeatNGramLogitsProcessor(2),
    "encoder ngrams": lambda hf: hf.EncoderNoRepeatNGramLogitsProcessor(2, IDS.flip(1)),
    "encoder ngrams, one row": lambda hf: hf.EncoderNoRepeatNGramLogitsProcessor(1, IDS[0]),
    "biases": lambda hf: hf.SequenceBiasLogitsProcessor({(4,): 2.0, (3, 7, 1): -3.0, (9, 2): 1.5, (9, 9, 9, 9, 9, 9): 1.0}),
    "biases, lists": lambda hf: hf.SequenceBiasLogitsProcessor([[[4], 2.0], [[7, 6], -1.0]]),
    "bad words": lambda hf: hf.NoBadWordsLogitsProcessor([[4], [5], [7, 2]], eos_token_id=5),
    "prefix": lambda hf: hf.PrefixConstrainedLogitsProcessor(lambda row, ids: [row + 1, len(ids)], 2),
    "forced bos": lambda hf: hf.ForcedBOSTokenLogitsProcessor(4),
    "forced eos": lambda hf: hf.ForcedEOSTokenLogitsProcessor(6, [4, 5]),
    "decay": lambda hf: hf.ExponentialDecayLengthPenalty((1, 1.5), [4, 5], 2),
    "decay, later": lambda hf: hf.ExponentialDecayLengthPenalty((4, 1.5), 4, 2),
    "suppress": lambda hf: hf.SuppressTokensLogitsProcessor([1, 2]),
    "suppress at begin": lambda hf: hf.SuppressTokensAtBeginLogitsProcessor([1, 2], 5),
    "min length": lambda hf: hf.MinLengthLogitsProcessor(9, 4),
    "min new tokens": lambda hf: hf.MinNewTokensLengthLogitsProcessor(3, 4, [4, 5]),
    "nan": lambda hf: hf.InfNanRemoveLogitsProcessor(),
    "normalization": lambda hf: hf.LogitNormalization(),
    "list": lambda hf: hf.LogitsProcessorList([hf.TemperatureLogitsWarper(0.5), hf.TopKLogitsWarper(4), hf.LogitNormalization()]),
    "confidence": lambda hf: lambda ids, scores: confidence(hf)(0.3)(ids[:1], (scores,)),
}  # fmt: skip


def confidence(hf):
    return hf.ConfidenceCriteria if hf is cadenza else hf.generation.stopping_criteria.ConfidenceCriteria


def by_hand():
    scores = torch.randn(2, 24, generator=torch.Generator().manual_seed(3)) * 2
    banned = scores.clone()
    banned[:, 10:] = -math.inf
    infinite = scores.clone()
    infinite[:, 2:9] = -math.inf
    ties = torch.tensor([[1.0, 3.0, 3.0, 0.0, 3.0] * 4, [0.0, 0.0, -2.0, 0.5, 0.5] * 4])
    return [scores, scores * 5, banned, infinite, ties, torch.zeros(2, 20)]


def test_guidance_by_hand():
    ids, scores = IDS[:1], torch.randn(2, 9, generator=torch.Generator().manual_seed(1))
    want = transformers.ClassifierFreeGuidanceLogitsProcessor(1.5)(ids, scores)
    ours = cadenza.ClassifierFreeGuidanceLogitsProcessor(1.5)
    compare(want, ours(ids, scores))
    assert (ours(ids.numpy(), scores.numpy()) == want.numpy()).all()
    with pytest.raises(ValueError, match="twice the batch size"):
        ours(torch.cat([ids, ids]), scores)
    with pytest.raises(ValueError, match="got guidance scale 1.0"):
        cadenza.ClassifierFreeGuidanceLogitsProcessor(1.0)


@pytest.mark.parametrize("case", BY_HAND, ids=str)
def test_by_hand(case):
    for scores in by_hand():
        kept = scores.clone()
        want = BY_HAND[case](transformers)(IDS, scores.clone())
        ours = BY_HAND[case](cadenza)
        compare(want, ours(IDS, scores))
        assert torch.equal(scores, kept), "the scores were changed"
        if "encoder" in case or (case.startswith(("top_p", "top_h")) and len(scores.unique()) < 10):
            continue  # torch's order of equal scores is not NumPy's
        got = ours(IDS.numpy(), scores.numpy())  # NumPy arrays in, NumPy arrays out
        assert not isinstance(got, torch.Tensor)
        compare(want, torch.from_numpy(got) if isinstance(want, torch.Tensor) else got)


REFUSED = [
    lambda hf: hf.TemperatureLogitsWarper(2), lambda hf: hf.TemperatureLogitsWarper(0.0), lambda hf: hf.TopKLogitsWarper(0),
    lambda hf: hf.TopPLogitsWarper(1.5), lambda hf: hf.MinPLogitsWarper(2.0), lambda hf: hf.TypicalLogitsWarper(1.0),
    lambda hf: hf.EpsilonLogitsWarper(0.0), lambda hf: hf.EtaLogitsWarper(1.0), lambda hf: hf.TopHLogitsWarper(0.0),
    lambda hf: hf.RepetitionPenaltyLogitsProcessor(2), lambda hf: hf.RepetitionPenaltyLogitsProcessor(1.5, prompt_ignore_length=-1),
    lambda hf: hf.AlternatingCodebooksLogitsProcessor(-1, 2, 3), lambda hf: hf.EncoderRepetitionPenaltyLogitsProcessor(-1.0, IDS),
    lambda hf: hf.NoRepeatNGramLogitsProcessor(0), lambda hf: hf.EncoderNoRepeatNGramLogitsProcessor(0, IDS),
    lambda hf: hf.SequenceBiasLogitsProcessor({}), lambda hf: hf.SequenceBiasLogitsProcessor({(1,): 2}),
    lambda hf: hf.SequenceBiasLogitsProcessor({(99,): 2.0})(IDS, torch.zeros(2, 20)), lambda hf: hf.NoBadWordsLogitsProcessor([]),
    lambda hf: hf.NoBadWordsLogitsProcessor([3]), lambda hf: hf.ForcedEOSTokenLogitsProcessor(3, -1),
    lambda hf: hf.MinLengthLogitsProcessor(-1, 3), lambda hf: hf.EpsilonLogitsWarper(0.1, min_tokens_to_keep=0),
    lambda hf: hf.PrefixConstrainedLogitsProcessor(lambda row, ids: [], 1)(IDS, torch.zeros(2, 20)),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused_by_hand(case):
    for hf in (transformers, cadenza):
        with pytest.raises(ValueError):
            REFUSED[case](hf)


def test_criteria_by_hand(golden):
    tokenizer = transformers.AutoTokenizer.from_pretrained(golden("llama_gqa"))
    ids = torch.tensor([tokenizer.encode("when to we of there", add_special_tokens=False)[:5]] * 2)
    text = tokenizer.decode(ids[0])
    for stop in (text[-2:], text[-1:], [text[-3:-1], "zzz"], "zzz", text[:2], text[-4:]):
        for hf in (transformers, cadenza):
            done = hf.StopStringCriteria(tokenizer, stop)(ids, None)
            theirs = done if hf is transformers else theirs
        compare(theirs, done, str(stop))
    for make in (
        lambda hf: hf.MaxLengthCriteria(5), lambda hf: hf.MaxLengthCriteria(6), lambda hf: hf.EosTokenCriteria(int(ids[0, -1])),
        lambda hf: hf.MaxTimeCriteria(0.0, 1.0), lambda hf: hf.StoppingCriteriaList([hf.MaxLengthCriteria(9), hf.EosTokenCriteria([1])]),
    ):  # fmt: skip
        compare(make(transformers)(ids, None), make(cadenza)(ids, None))


def test_ids_of_processors_and_criteria():
    """Attributes that hold ids are tensors."""
    for make, name in (
        (lambda hf: hf.EosTokenCriteria(3), "eos_token_id"), (lambda hf: hf.EosTokenCriteria(torch.tensor([3, 4])), "eos_token_id"),
        (lambda hf: hf.MinLengthLogitsProcessor(9, [3, 4]), "eos_token_id"), (lambda hf: hf.ForcedEOSTokenLogitsProcessor(9, 3), "eos_token_id"),
        (lambda hf: hf.MinNewTokensLengthLogitsProcessor(2, 3, 4), "eos_token_id"),
        (lambda hf: hf.ExponentialDecayLengthPenalty((1, 1.5), 4, 2), "eos_token_id"),
        (lambda hf: hf.SuppressTokensLogitsProcessor([3, 4]), "suppress_tokens"),
        (lambda hf: hf.SuppressTokensAtBeginLogitsProcessor([3, 4], 1), "begin_suppress_tokens"),
    ):  # fmt: skip
        compare(getattr(make(transformers), name), getattr(make(cadenza), name))


def test_unfeasible_lengths_are_warned_of(golden):
    for model in models(golden, "llama_gqa", False):
        for lengths in (dict(max_length=8, min_length=9), dict(max_new_tokens=3, min_new_tokens=5)):
            with pytest.warns(UserWarning, match="Unfeasible length constraints: `min_"):
                model.generate(rows(), do_sample=False, **lengths)
        assert (str(model.dtype), model.main_input_name, model.num_parameters()) == ("torch.float32", "input_ids", 89040)
        with pytest.raises(ValueError, match="dict with tuples as keys"):
            model.generate(rows(), sequence_bias={50: -10.0}, **GREEDY)
        with pytest.raises((ValueError, RuntimeError)):
            model.generate(rows(), attention_mask=torch.full((2, 5), 0.5), **GREEDY)


def test_rounds_are_streamed(golden):
    """Tokens of drafts come as (1, tokens); here one by one."""
    for options in (dict(assistant_model=True), dict(prompt_lookup_num_tokens=3)):
        seen = []
        for model in models(golden, "llama_gqa", False):
            made = {name: model if value is True else value for name, value in options.items()}
            streamer = Recorder()
            model.generate(rows()[:1], streamer=streamer, **made, **GREEDY)
            assert all(put.shape[0] == 1 for put in streamer.seen[:-1]) and streamer.seen[-1] == "end"
            seen.append(torch.cat(streamer.seen[:-1], 1))
        compare(*seen)


def test_validated_criteria():
    for hf in (transformers, cadenza):
        validate = hf.generation.validate_stopping_criteria
        assert validate(hf.StoppingCriteriaList(), 7).max_length == 7
        with pytest.warns(UserWarning, match="different `max_length`"):
            assert validate(hf.StoppingCriteriaList([hf.MaxLengthCriteria(5)]), 7).max_length == 5


@pytest.mark.parametrize("cached", [True, False])
def test_unbatched_guidance_by_hand(golden, cached):
    theirs, ours = models(golden, "llama_gqa", False)
    scores = torch.randn(2, 384, generator=torch.Generator().manual_seed(2))
    for negative in (None, rows()[:, :3]):
        made = [
            hf.UnbatchedClassifierFreeGuidanceLogitsProcessor(1.5, model, unconditional_ids=negative, use_cache=cached)
            for hf, model in ((transformers, theirs), (cadenza, ours))
        ]
        ids = rows()
        for step in range(3):
            with torch.no_grad():
                compare(made[0](ids, scores), made[1](ids, scores))
            ids = torch.cat([ids, torch.tensor([[5 + step], [9]])], 1)


TEXTS = [
    dict(text="dog"), dict(text=["dog", "river (noun):"], padding=True, pad_to_multiple_of=8), dict(text="dog", return_token_type_ids=True),
    dict(text=["dog"], return_length=True), dict(text="dog", return_length=True),
    dict(text=["dog", "cat food"], padding=True, return_tensors="pt", return_length=True, return_token_type_ids=True),
    dict(text=["dog", "river (noun):"], padding="max_length", max_length=4, truncation=True),
    dict(text=["dog", "river (noun): a"], max_length=3), dict(text="river (noun): a", max_length=3, truncation=False),
    dict(text="river (noun): a", max_length=3, padding="max_length"), dict(text="dog", padding="max_length"),
    dict(text=["dog", "river (noun):"], padding="max_length", max_length=8, pad_to_multiple_of=4, return_tensors="np"),
    dict(text="a " * 600, truncation=True), dict(text="a " * 600, truncation="only_first", return_tensors="pt"),
    dict(text=["dog", "river (noun): a"], padding=True, max_length=3), dict(text=["dog", "river (noun): a"], padding="do_not_pad"),
    dict(text=["dog", "river <|end|>"], padding="longest", padding_side="right", return_special_tokens_mask=True),
    dict(text="dog", return_attention_mask=None, return_token_type_ids=None), dict(text="", max_length=2),
]  # fmt: skip
BAD_TEXTS = [
    dict(padding="all"), dict(truncation="some"), dict(max_length=-1), dict(max_length=3, truncation=True, padding=True, pad_to_multiple_of=2),
    dict(text=["dog", "river (noun):"], return_tensors="pt"), dict(return_tensors="tf"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BAD_TEXTS)))
def test_texts_refused(case):
    for hf in (transformers, cadenza):
        with pytest.raises((ValueError, OverflowError) if hf is transformers else ValueError):
            hf.AutoTokenizer.from_pretrained(DICTIONARY)(**{"text": "dog", **BAD_TEXTS[case]})


def test_ragged_texts_for_numpy():
    want, got = (hf.AutoTokenizer.from_pretrained(DICTIONARY)(["dog", "river (noun):"], return_tensors="np") for hf in (transformers, cadenza))
    for name in ("input_ids", "attention_mask"):
        assert got[name].dtype == want[name].dtype == object and [each.tolist() for each in got[name]] == [each.tolist() for each in want[name]]


BATCHES = [
    dict(encoded_inputs=[{"input_ids": [5, 6]}, {"input_ids": [7]}]), dict(encoded_inputs={"input_ids": [[5, 6], [7]], "attention_mask": [[0, 1], [1]]}),
    dict(encoded_inputs=[{"input_ids": [5, 6]}], padding="max_length", max_length=5, padding_side="left"), dict(encoded_inputs={"input_ids": [5, 6, 7]}, pad_to_multiple_of=4),
    dict(encoded_inputs=[{"input_ids": [5], "special_tokens_mask": [1]}, {"input_ids": [7, 8], "special_tokens_mask": [0, 0]}], return_tensors="pt"),
    dict(encoded_inputs=[{"input_ids": [5]}, {"input_ids": [7, 8]}], padding=False),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BATCHES)))
def test_batches_padded_by_hand(case):
    want, got = (dict(hf.AutoTokenizer.from_pretrained(DICTIONARY).pad(**BATCHES[case])) for hf in (transformers, cadenza))
    want.setdefault("attention_mask", None)  # transformers makes one only where it pads
    compare({name: want[name] for name in sorted(want) if want[name] is not None}, {name: got[name] for name in sorted(got) if want[name] is not None})


@pytest.mark.parametrize("name", ["bert", "t5", "llama2", "gpt2", "qwen2"])
def test_tokenizers_without_a_model(name, tmp_path):
    """Folders with a tokenizer alone, cut, padded, and saved for either."""
    folder = DICTIONARY.parents[1] / "tests" / "tokenizers" / name
    opened = [hf.AutoTokenizer.from_pretrained(folder) for hf in (transformers, cadenza)]
    for given in (dict(), dict(max_length=4), dict(max_length=4, truncation=True, return_special_tokens_mask=True), dict(add_special_tokens=False)):
        want, got = (tokenizer(["river, a dog", "don't stop ."], **given) for tokenizer in opened)
        compare({each: want[each] for each in sorted(want) if each != "token_type_ids"}, {each: got[each] for each in sorted(got)}, str(given))
    for clean in (None, True, False):
        want, got = (tokenizer.decode(tokenizer("don't stop .")["input_ids"], clean_up_tokenization_spaces=clean) for tokenizer in opened)
        assert got == want
    for each in "bos eos pad sep cls mask".split():
        assert getattr(opened[1], f"{each}_token") == getattr(opened[0], f"{each}_token"), each
        assert getattr(opened[1], f"{each}_token_id") == getattr(opened[0], f"{each}_token_id"), each
    for each in ("model_max_length", "clean_up_tokenization_spaces", "added_tokens_encoder"):
        assert getattr(opened[1], each) == getattr(opened[0], each), each
    assert opened[1].get_added_vocab() == opened[0].get_added_vocab() and opened[1].num_special_tokens_to_add() == opened[0].num_special_tokens_to_add()
    opened[1].padding_side, opened[1].truncation_side, opened[1].chat_template = "left", "left", "{{ messages[0].content }}!"
    names = opened[1].save_pretrained(tmp_path / "saved")
    assert str(tmp_path / "saved" / "tokenizer_config.json") in names
    for hf in (transformers, cadenza):
        again = hf.AutoTokenizer.from_pretrained(tmp_path / "saved")
        assert again("river, a dog")["input_ids"] == opened[0]("river, a dog")["input_ids"]
        assert (again.padding_side, again.truncation_side) == ("left", "left")
        assert again.apply_chat_template([{"role": "user", "content": "hello"}], tokenize=False) == "hello!"
    with pytest.raises(ValueError, match="is a file"):
        opened[1].save_pretrained(tmp_path / "saved" / "tokenizer_config.json")


def test_tokenizers():
    opened = [hf.AutoTokenizer.from_pretrained(DICTIONARY, padding_side="left") for hf in (transformers, cadenza)]
    for case in TEXTS:
        want, got = (tokenizer(**case) for tokenizer in opened)
        compare({name: want[name] for name in want}, {name: got[name] for name in got}, str(case))
    assert opened[0].special_tokens_map == opened[1].special_tokens_map and opened[0].is_fast == opened[1].is_fast
    for tokenizer in opened:
        assert tokenizer.convert_tokens_to_string(tokenizer.tokenize("river (noun):")) == "river (noun):"
        with pytest.raises(ValueError):
            tokenizer(3)
    with pytest.raises(NotImplementedError, match="text_pair"):
        opened[1]("dog", "cat")


TALK = [{"role": "user", "content": "What does río mean? \u2603"}, {"role": "assistant", "content": "A  stream ."}]
MARKED = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}{{ flavour }}{{ bos_token }}{{ pad_token }}"
)
SEVERAL = {"default": MARKED, "tool_use": "T{{ tools | length }}", "other": "{{ messages | length }}"}
CHATS = {
    "text": dict(tokenize=False), "ids": dict(), "prompt": dict(add_generation_prompt=True, flavour="x"), "ids alone": dict(return_dict=False),
    "continued": dict(continue_final_message=True, tokenize=False), "cut": dict(truncation=True, max_length=5),
    "padded": dict(padding="max_length", max_length=60), "tensors": dict(return_tensors="pt"),
}  # fmt: skip


@pytest.mark.parametrize("how", ["given", "set", "several", "named", "own"])
def test_chat_templates(how):
    opened = [hf.AutoTokenizer.from_pretrained(DICTIONARY) for hf in (transformers, cadenza)]
    given = {"given": MARKED, "named": "other"}.get(how)
    for tokenizer in opened:
        if how in ("set", "several", "named"):
            tokenizer.chat_template = MARKED if how == "set" else SEVERAL
    assert opened[0].chat_template == opened[1].chat_template and opened[0].get_chat_template() == opened[1].get_chat_template()
    for name, options in CHATS.items():
        for talk in (TALK, [TALK, TALK[:1]]):
            if talk is not TALK and name in ("tensors", "continued") or how == "named" and name == "continued":
                continue
            want, got = (tokenizer.apply_chat_template(talk, chat_template=given, **options) for tokenizer in opened)
            compare(dict(want) if hasattr(want, "keys") else want, dict(got) if hasattr(got, "keys") else got, f"{how}, {name}")


SIDES = [
    ("llama", "LlamaTokenizer"), ("llama", None), ("mistral", "LlamaTokenizer"), ("gemma2", "GemmaTokenizerFast"), ("gemma2", None),
    ("gemma2", "PreTrainedTokenizerFast"), (None, "LlamaTokenizer"), ("cohere", "CohereTokenizerFast"), ("qwen3", "LlamaTokenizer"),
    ("granite", "GemmaTokenizer"), ("llama", "TokenizersBackend"),
]  # fmt: skip


def test_sides(golden, tmp_path):
    """The file's, else what transformers takes for the tokenizer's class."""
    from cadenza.templates import sides_of

    for name in ("llama_gqa", "llama_uad_draft", DICTIONARY):
        want, got = (hf.AutoTokenizer.from_pretrained(golden(str(name))) for hf in (transformers, cadenza))
        assert (got.padding_side, got.truncation_side) == (want.padding_side, want.truncation_side)
    source = pathlib.Path(golden("llama_gqa"))
    (tmp_path / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
    config = json.loads((source / "tokenizer_config.json").read_text())
    del config["padding_side"], config["tokenizer_class"]
    for model_type, named in SIDES:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, **({"tokenizer_class": named} if named else {})}))
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type} if model_type else {}))
        want = transformers.AutoTokenizer.from_pretrained(tmp_path)
        assert sides_of(tmp_path, model_type) == (want.padding_side, want.truncation_side), (model_type, named)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, "padding_side": "left", "truncation_side": "left"}))
    assert sides_of(tmp_path, "llama") == ("left", "left")


def test_streamed_text(golden, capsys):
    """transformers' own tokenizer and streamers over both."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(golden("llama_gqa"))
    printed = []
    for hf, model in zip((transformers, cadenza), models(golden, "llama_gqa", False)):
        for options in (dict(), dict(skip_prompt=True)):
            model.generate(rows()[:1], streamer=hf.TextStreamer(tokenizer, **options), **GREEDY)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and printed[0]
