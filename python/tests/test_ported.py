"""transformers' own generation tests (tests/generation of the 5.x line), by their names, over golden models; PORTED.md lists all.

What they assert is asserted here, in this project's words: models by name are golden folders, tensors are NumPy arrays.
"""

import warnings

import numpy
import pytest

import cadenza

DECODERS = ["gpt2", "llama_gqa", "mistral_sw"]
ENCODERS = ["bart", "t5_gated"]
GREEDY = dict(do_sample=False, max_new_tokens=6, eos_token_id=None)
_opened = {}


@pytest.fixture
def model(golden, request):
    name = request.param
    if name not in _opened:
        _opened[name] = cadenza.Model.from_pretrained(golden(name))
    return _opened[name]


decoders = pytest.mark.parametrize("model", DECODERS, indirect=True)
encoders = pytest.mark.parametrize("model", ENCODERS, indirect=True)
every = pytest.mark.parametrize("model", DECODERS + ENCODERS, indirect=True)
llama = pytest.mark.parametrize("model", ["llama_gqa"], indirect=True)
bart = pytest.mark.parametrize("model", ["bart"], indirect=True)


def ids(rows=2, length=5, seed=0):
    return numpy.random.default_rng(seed).integers(5, 90, (rows, length))


def start(model):
    return 1 if model._has_encoder else ids().shape[1]


# -- GenerationTesterMixin -----------------------------------------------------------------------------------------------


@every
def test_greedy_generate(model):
    assert model.generate(ids(), **GREEDY).shape == (2, start(model) + 6)


@every
def test_greedy_generate_dict_outputs(model):
    out = model.generate(ids(), return_dict_in_generate=True, output_scores=True, output_logits=True, output_attentions=True, output_hidden_states=True, **GREEDY)
    assert type(out).__name__ == ("GenerateEncoderDecoderOutput" if model._has_encoder else "GenerateDecoderOnlyOutput")
    assert out.sequences.shape == (2, start(model) + 6) and len(out.scores) == len(out.logits) == 6
    assert all(step.shape == (2, model.vocab_size) for step in out.scores)
    layers = out.decoder_hidden_states if model._has_encoder else out.hidden_states
    assert len(layers) == 6 and layers[0][0].shape[:2] == (2, start(model)) and layers[1][0].shape[:2] == (2, 1)


@every
def test_greedy_generate_dict_outputs_use_cache(model):
    with_cache = model.generate(ids(), use_cache=True, return_dict_in_generate=True, output_scores=True, **GREEDY)
    without = model.generate(ids(), use_cache=False, return_dict_in_generate=True, output_scores=True, **GREEDY)
    assert (with_cache.sequences == without.sequences).all() and without.past_key_values is None
    assert with_cache.past_key_values.get_seq_length() == with_cache.sequences.shape[1] - 1


@every
def test_sample_generate(model):
    got = model.generate(ids(), do_sample=True, num_return_sequences=2, max_new_tokens=6, eos_token_id=None)
    assert got.shape == (4, start(model) + 6)


@every
def test_beam_search_generate_dict_output(model):
    out = model.generate(ids(), num_beams=3, num_return_sequences=2, return_dict_in_generate=True, output_scores=True, **GREEDY)
    assert type(out).__name__ == ("GenerateBeamEncoderDecoderOutput" if model._has_encoder else "GenerateBeamDecoderOnlyOutput")
    assert out.sequences.shape == (4, start(model) + 6) and out.sequences_scores.shape == (4,)
    assert out.beam_indices.shape == (4, 6) and all(step.shape == (6, model.vocab_size) for step in out.scores)
    assert (out.sequences_scores < 0).all()


@every
def test_beam_sample_generate(model):
    assert model.generate(ids(), num_beams=2, do_sample=True, max_new_tokens=6, eos_token_id=None).shape == (2, start(model) + 6)


@decoders
def test_generate_without_input_ids(model):
    assert model.generate(bos_token_id=5, **GREEDY)[0][0] == 5
    if model.config.__dict__.get("bos_token_id") is not None:
        assert len(model.generate(**GREEDY)[0]) == 7


@decoders
@pytest.mark.parametrize("assistant", ["same", "random"])
def test_assisted_decoding_matches_greedy_search(model, golden, assistant):
    if assistant == "random" and "llama" not in model.name_or_path:
        pytest.skip("the golden draft model is a llama's")
    small = model if assistant == "same" else cadenza.Model.from_pretrained(golden("llama_draft"))
    options = dict(return_dict_in_generate=True, output_scores=True, output_logits=True, **GREEDY)
    one = ids(1)
    want, got = model.generate(one, **options), model.generate(one, assistant_model=small, **options)
    assert (want.sequences == got.sequences).all() and len(want.scores) == len(got.scores)
    for a, b in zip(want.scores + want.logits, got.scores + got.logits):
        assert numpy.allclose(a, b, atol=1e-4)


@decoders
def test_assisted_decoding_sample(model):
    got = model.generate(ids(1), assistant_model=model, do_sample=True, max_new_tokens=6, eos_token_id=None)
    assert got.shape == (1, 11)


@decoders
def test_prompt_lookup_decoding_matches_greedy_search(model):
    prompt = numpy.tile(ids(1), 3)
    assert (model.generate(prompt, **GREEDY) == model.generate(prompt, prompt_lookup_num_tokens=2, **GREEDY)).all()


@llama
def test_prompt_lookup_decoding_stops_at_eos(model):
    """A draft with the end in it ends there."""
    greedy = model.generate(ids(1), **GREEDY)
    end = int(greedy[0, -2])
    prompt = numpy.concatenate([greedy, greedy[:, :5]], 1)  # the answer stands in the prompt
    got = model.generate(prompt, prompt_lookup_num_tokens=5, do_sample=False, max_new_tokens=10, eos_token_id=end)[0, prompt.shape[1] :]
    assert end not in got[:-1].tolist()
    assert got.tolist() == model.generate(prompt, do_sample=False, max_new_tokens=10, eos_token_id=end)[0, prompt.shape[1] :].tolist()


@decoders
def test_left_padding_compatibility(model):
    prompt, pad = ids(), 3
    padded = numpy.concatenate([numpy.full((2, 4), pad), prompt], 1)
    mask = numpy.concatenate([numpy.zeros((2, 4), int), numpy.ones_like(prompt)], 1)
    want = model.generate(prompt, return_dict_in_generate=True, output_logits=True, **GREEDY)
    got = model.generate(padded, attention_mask=mask, return_dict_in_generate=True, output_logits=True, **GREEDY)
    assert (want.sequences[:, 5:] == got.sequences[:, 9:]).all()
    assert all(numpy.allclose(a, b, atol=1e-4) for a, b in zip(want.logits, got.logits))


@decoders
def test_generate_continue_from_past_key_values(model):
    whole = model.generate(ids(), do_sample=False, max_new_tokens=6, eos_token_id=None, return_dict_in_generate=True)
    first = model.generate(ids(), do_sample=False, max_new_tokens=3, eos_token_id=None, return_dict_in_generate=True)
    rest = model.generate(first.sequences, past_key_values=first.past_key_values, do_sample=False, max_new_tokens=3, eos_token_id=None, return_dict_in_generate=True)
    assert (rest.sequences == whole.sequences).all()
    assert rest.past_key_values.get_seq_length() == whole.past_key_values.get_seq_length()


@decoders
def test_generate_from_inputs_embeds(model):
    """Embeddings alone give new ids alone; with ids they are what the sequences begin with."""
    embeds = numpy.random.default_rng(1).standard_normal((2, 5, model.info["hidden_size"])).astype(numpy.float32)
    alone = model.generate(inputs_embeds=embeds, **GREEDY)
    both = model.generate(ids(), inputs_embeds=embeds, **GREEDY)
    assert alone.shape == (2, 6) and both.shape == (2, 11) and (both[:, 5:] == alone).all()
    assert not (model.generate(inputs_embeds=embeds[:, ::-1].copy(), **GREEDY) == alone).all()


@decoders
def test_generate_methods_with_logits_to_keep(model):
    assert (model.generate(ids(), logits_to_keep=1, **GREEDY) == model.generate(ids(), **GREEDY)).all()


# -- GenerationIntegrationTests ------------------------------------------------------------------------------------------


@every
def test_validate_generation_inputs(model):
    for wrong in (dict(random_argument=1), dict(foo="bar"), dict(do_samples=True)):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            model.generate(ids(), **wrong)
    if not model._has_encoder:
        with pytest.raises(ValueError, match="decoder_input_ids"):
            model.generate(ids(), decoder_input_ids=ids())


@llama
def test_custom_logits_processor(model):
    both = cadenza.LogitsProcessorList([cadenza.MinLengthLogitsProcessor(min_length=10, eos_token_id=0)])
    assert (model.generate(ids(), logits_processor=both, min_length=9, **GREEDY) == model.generate(ids(), **GREEDY)).all() and len(both) == 1


@llama
def test_custom_stopping_criteria(model):
    class Stop15(cadenza.StoppingCriteria):
        def __call__(self, input_ids, scores, **kwargs):
            return input_ids.shape[-1] >= 15

    class Stop18(cadenza.StoppingCriteria):
        def __call__(self, input_ids, scores, **kwargs):
            return input_ids.shape[-1] >= 18

    options = dict(do_sample=False, max_length=22, eos_token_id=None)
    assert model.generate(ids(), stopping_criteria=[Stop15()], **options).shape == (2, 15)
    assert model.generate(ids(), stopping_criteria=cadenza.StoppingCriteriaList([Stop15(), Stop18()]), **options).shape == (2, 15)
    assert model.generate(ids(), stopping_criteria=[Stop18()], **options).shape == (2, 18)


@llama
def test_custom_stopping_criteria_overload_error(model):
    """A MaxLengthCriteria of the user's stands beside max_length."""
    mine = cadenza.StoppingCriteriaList([cadenza.MaxLengthCriteria(max_length=8)])
    assert model.generate(ids(), stopping_criteria=mine, **GREEDY).shape == (2, 8)
    assert model.generate(ids(), stopping_criteria=mine, max_length=32, do_sample=False, eos_token_id=None).shape == (2, 8)


def test_stop_sequence_stopping_criteria(dictionary, tokenizer):
    prompt = tokenizer("river (noun):", return_tensors="np")["input_ids"]
    whole = dictionary.generate(prompt, do_sample=False, max_new_tokens=8)
    got = dictionary.generate(prompt, do_sample=False, max_new_tokens=8, stop_strings=["stream"], tokenizer=tokenizer)
    assert tokenizer.decode(got[0]).endswith("stream") and got.shape[1] < whole.shape[1]


@llama
def test_default_max_length_warning(model):
    with pytest.warns(UserWarning, match="20 new tokens"):
        model.generate(ids(), do_sample=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.generate(ids(), do_sample=False, max_new_tokens=3)
        model.generate(ids(), do_sample=False, max_length=9)


@llama
def test_length_warning_assisted_generation(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = model.generate(ids(1), assistant_model=model, do_sample=False, min_new_tokens=10, max_length=20)
    assert 15 <= got.shape[1] <= 20


@llama
def test_generated_length_assisted_generation(model):
    assert model.generate(ids(1), assistant_model=model, do_sample=False, min_new_tokens=10).shape[1] >= 15
    assert model.generate(ids(1), assistant_model=model, do_sample=False, max_new_tokens=7).shape[1] <= 12


@every
def test_generate_input_ids_as_kwarg(model):
    assert (model.generate(ids(), **GREEDY) == model.generate(input_ids=ids(), **GREEDY)).all()


@every
def test_generate_inputs_and_encoder_kwargs(model):
    with pytest.raises(ValueError, match="input_ids"):
        model.generate(ids(), input_ids=ids(), **GREEDY)


@bart
def test_generate_too_many_encoder_kwargs(model):
    embeds = numpy.zeros((2, 5, model.info["hidden_size"]), numpy.float32)
    with pytest.raises(ValueError, match="inputs_embeds"):
        model.generate(input_ids=ids(), inputs_embeds=embeds, **GREEDY)


@every
def test_transition_scores_greedy_search(model):
    out = model.generate(ids(), return_dict_in_generate=True, output_scores=True, **GREEDY)
    made = model.compute_transition_scores(out.sequences, out.scores)
    want = [[out.scores[step][row][out.sequences[row][start(model) + step]] for step in range(6)] for row in range(2)]
    assert made.tolist() == numpy.array(want).tolist()
    normal = model.compute_transition_scores(out.sequences, out.scores, normalize_logits=True)
    logprobs = numpy.stack(out.scores).astype(numpy.float64)
    logprobs -= numpy.log(numpy.exp(logprobs).sum(-1, keepdims=True))
    assert numpy.allclose(normal, [[logprobs[s, r, out.sequences[r][start(model) + s]] for s in range(6)] for r in range(2)], atol=1e-4)


@every
def test_transition_scores_beam_search(model):
    """Their sum is the sequence's score, with an end too."""
    for end in (None, list(range(30, 90))):
        out = model.generate(ids(), num_beams=4, num_return_sequences=2, max_new_tokens=8, do_sample=False, eos_token_id=end, pad_token_id=0,
                             return_dict_in_generate=True, output_scores=True, length_penalty=0.0)  # fmt: skip
        made = model.compute_transition_scores(out.sequences, out.scores, out.beam_indices)
        assert numpy.allclose(made.sum(-1), out.sequences_scores, atol=1e-3)
        assert (made[out.beam_indices == -1] == 0).all()


@encoders
def test_encoder_decoder_generate_attention_mask(model):
    """The longer source of a padded batch has the scores that it has alone."""
    long, short = ids(1, 8), ids(1, 3, seed=1)
    pad = numpy.zeros((1, 5), int)
    both = numpy.concatenate([long, numpy.concatenate([short, pad], 1)])
    mask = numpy.concatenate([numpy.ones((1, 8), int), numpy.concatenate([numpy.ones((1, 3), int), pad], 1)])
    options = dict(num_beams=2, return_dict_in_generate=True, output_scores=True, **GREEDY)
    batch = model.generate(both, attention_mask=mask, **options)
    for row, source in enumerate((long, short)):
        alone = model.generate(source, attention_mask=numpy.ones_like(source), **options)
        assert (alone.sequences[0] == batch.sequences[row]).all()
        assert numpy.allclose(alone.sequences_scores, batch.sequences_scores[row], atol=1e-4)


@llama
@pytest.mark.parametrize("mode", [dict(), dict(num_beams=3), dict(penalty_alpha=0.6, top_k=4)], ids=str)
def test_eos_token_id_int_and_list(model, mode):
    """_greedy_search, _beam_search, _contrastive_search."""
    end = int(model.generate(ids(1), **GREEDY)[0, 7])
    options = dict(do_sample=False, max_new_tokens=10, pad_token_id=0, **mode)
    want = model.generate(ids(1), eos_token_id=end, **options)
    assert (model.generate(ids(1), eos_token_id=[end], **options) == want).all()
    assert (model.generate(ids(1), eos_token_id=[end, 10**3 % model.vocab_size], **options)[0, : want.shape[1]] == want[0])[:6].all()


@bart
def test_batched_decoder_start_id(model):
    one = int(model.config.decoder_start_token_id)
    want = model.generate(ids(), decoder_start_token_id=one, **GREEDY)
    assert (model.generate(ids(), decoder_start_token_id=[one] * 2, **GREEDY) == want).all()
    assert model.generate(ids(), decoder_start_token_id=[5, 6], **GREEDY)[:, 0].tolist() == [5, 6]


@bart
def test_decoder_start_id_from_config(model):
    one = int(model.config.decoder_start_token_id)
    assert (model.generate(ids(), **GREEDY) == model.generate(ids(), decoder_start_token_id=one, **GREEDY)).all()


@llama
def test_logits_processor_not_inplace(model):
    out = model.generate(ids(), temperature=0.1, do_sample=True, top_k=0, max_new_tokens=4, eos_token_id=None, return_dict_in_generate=True, output_scores=True, output_logits=True)
    for scores, logits in zip(out.scores, out.logits):
        assert numpy.allclose(scores, logits / numpy.float32(0.1), rtol=1e-5) and not numpy.allclose(scores, logits)


@llama
def test_return_unprocessed_logit_scores(model):
    """test_compare_unprocessed_logit_scores besides: they are those of a pass."""
    out = model.generate(ids(), suppress_tokens=[7, 8], return_dict_in_generate=True, output_scores=True, output_logits=True, **GREEDY)
    for step in range(6):
        assert numpy.isneginf(out.scores[step][:, 7:9]).all() and numpy.isfinite(out.logits[step]).all()
        assert numpy.allclose(out.logits[step], model(out.sequences[:, : 5 + step]).logits[:, -1], atol=1e-4)


@llama
def test_model_generation_config_can_override_defaults(model, golden):
    mine = cadenza.Model.from_pretrained(golden("llama_gqa"))
    mine.generation_config.max_new_tokens, mine.generation_config.do_sample, mine.generation_config.eos_token_id = 4, False, None
    assert mine.generate(ids()).shape == (2, 9) and mine.generate(ids(), max_new_tokens=2).shape == (2, 7)
    given = cadenza.GenerationConfig(max_new_tokens=3)
    assert mine.generate(ids(), generation_config=given).shape == (2, 8)


@llama
def test_generate_can_restart_from_cache_and_new_tokens_only(model):
    first = model.generate(ids(1), return_dict_in_generate=True, **GREEDY)
    more = ids(1, 3, seed=2)
    whole = numpy.concatenate([first.sequences, more], 1)
    want = model.generate(whole, **GREEDY)
    # the last token of the answer is not in the cache
    new = whole[:, first.past_key_values.get_seq_length() :]
    got = model.generate(new, attention_mask=numpy.ones_like(whole), past_key_values=first.past_key_values, **GREEDY)
    assert got[0].tolist()[-6:] == want[0].tolist()[-6:]


@llama
@pytest.mark.parametrize("schedule", ["heuristic", "heuristic_transient"])
def test_assisted_decoding_num_assistant_tokens_schedule(model, golden, schedule):
    small = cadenza.Model.from_pretrained(golden("llama_draft"))
    small.generation_config.num_assistant_tokens, small.generation_config.num_assistant_tokens_schedule = 5, schedule
    model.generate(ids(1), assistant_model=small, do_sample=False, max_new_tokens=12, eos_token_id=None)
    assert (small.generation_config.num_assistant_tokens == 5) == (schedule == "heuristic_transient")


@llama
def test_custom_generate_callable(model):
    assert model.generate(ids(), custom_generate=lambda model, input_ids, **kwargs: kwargs["generation_config"].max_length, **GREEDY) == 11


@llama
def test_custom_generate_local_directory_requires_trust_remote_code(model, tmp_path):
    (tmp_path / "custom_generate").mkdir()
    (tmp_path / "custom_generate" / "generate.py").write_text("def generate(*args, **kwargs):\n    return 'success'\n")
    assert model.generate(ids(), custom_generate=str(tmp_path), trust_remote_code=True) == "success"
    with pytest.raises(ValueError, match="trust_remote_code"):
        model.generate(ids(), custom_generate=str(tmp_path))


@llama
def test_generate_from_inputs_embeds_with_bos_token_id_is_none(model):
    embeds = numpy.ones((1, 5, model.info["hidden_size"]), numpy.float32)
    assert model.generate(inputs_embeds=embeds, bos_token_id=None, **GREEDY).shape == (1, 6)


def test_token_healing_prompts(dictionary, tokenizer):
    """TokenHealingTestCase.test_prompts: a prompt's last token may become a longer one that begins alike, and the text goes on from it."""
    for text in ("river (noun): a large nat", "river (noun): a l", "dog (noun): a mem"):
        prompt = tokenizer(text, return_tensors="np")["input_ids"]
        got = dictionary.generate(prompt, token_healing=True, tokenizer=tokenizer, do_sample=False, max_new_tokens=4)
        assert tokenizer.decode(got[0]).startswith(text) and (got[0, : prompt.shape[1] - 1] == prompt[0, :-1]).all()
        healed = tokenizer.decode(got[0, prompt.shape[1] - 1 : prompt.shape[1]])
        assert healed.startswith(tokenizer.decode(prompt[0, -1:]))
