"""Decode loops of Cadenza over a transformers model: what transformers gives there, and what Cadenza's own model gives."""

import json

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import cadenza  # noqa: E402
import cadenza.transformers as inside  # noqa: E402
from cadenza import _core  # noqa: E402
from cadenza._abi import ffi  # noqa: E402
from conftest import GOLDEN  # noqa: E402


@pytest.fixture(scope="module")
def theirs():
    return transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / "llama_gqa", dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def ours():
    return cadenza.AutoModelForCausalLM.from_pretrained(GOLDEN / "llama_gqa", device="cpu")


ONE, TWO = torch.tensor([[5, 6, 9]]), torch.tensor([[0, 5, 6], [9, 8, 7]])
MASK = torch.tensor([[0, 1, 1], [1, 1, 1]])
LOOPS = {
    "greedy": (ONE, dict(do_sample=False, max_new_tokens=12)),
    "greedy, processors": (ONE, dict(do_sample=False, max_new_tokens=12, repetition_penalty=1.4, no_repeat_ngram_size=2)),
    "greedy, pads": (TWO, dict(do_sample=False, max_new_tokens=9, attention_mask=MASK)),
    "sample": (ONE, dict(do_sample=True, max_new_tokens=12, temperature=1.3, top_k=20, top_p=0.9)),
    "sample, several": (ONE, dict(do_sample=True, max_new_tokens=6, num_return_sequences=3, top_k=0)),
    "beams": (ONE, dict(do_sample=False, num_beams=4, num_return_sequences=2, max_new_tokens=9)),
    "beams, two prompts": (TWO, dict(do_sample=False, num_beams=3, max_new_tokens=6, attention_mask=MASK, length_penalty=0.5)),
    "beam sample": (ONE, dict(do_sample=True, num_beams=3, max_new_tokens=6, temperature=1.2)),
}


@pytest.mark.parametrize("name", LOOPS)
def test_strategy_as_both_worlds(theirs, ours, name):
    ids, kwargs = LOOPS[name]
    answers = []
    for generate in (
        lambda **more: theirs.generate(ids, **kwargs, **more),
        lambda **more: theirs.generate(ids, custom_generate=inside.strategy(), **kwargs, **more),
        lambda **more: ours.generate(ids, **kwargs, **more),
    ):
        torch.manual_seed(3)
        answers.append(generate(return_dict_in_generate=True, output_scores=True))
    want, got, own = answers
    assert got.sequences.tolist() == want.sequences.tolist() == own.sequences.tolist()
    assert type(got) is type(want) and len(got.scores) == len(want.scores)
    for a, b in zip(got.scores, want.scores):
        assert torch.allclose(a, b, atol=1e-4)
    torch.manual_seed(3)
    assert theirs.generate(ids, custom_generate=inside.strategy(), **kwargs).tolist() == want.sequences.tolist()


def test_strategy_assisted(theirs, ours):
    kwargs = dict(do_sample=False, max_new_tokens=14)
    want = theirs.generate(ONE, **kwargs).tolist()
    for assistant in (theirs, ours):
        decode = inside.strategy(assistant_model=assistant)
        assert theirs.generate(ONE, custom_generate=decode, **kwargs).tolist() == want
    repeated = torch.tensor([[5, 6, 7, 5, 6, 7, 5]])
    found = theirs.generate(repeated, custom_generate=inside.strategy(prompt_lookup_num_tokens=3), **kwargs)
    assert found.tolist() == theirs.generate(repeated, **kwargs).tolist()


def test_strategy_of_a_plugin(theirs):
    """What no loop of transformers does; the same tokens as in the library itself."""
    torch.manual_seed(5)
    got = theirs.generate(ONE, custom_generate=inside.strategy("mirostat_v2", tau=3.0), do_sample=True, max_new_tokens=8)
    runtime = _core.runtime(device="cpu")
    pipeline = inside._Pipeline(runtime, "[pipeline]\nstrategy = mirostat_v2\n[mirostat_v2]\ntau = 3.0\n")
    model = cadenza.AutoModelForCausalLM.from_pretrained(GOLDEN / "llama_gqa", device="cpu")
    request = _core.new_struct("cdz_request", model=model._pointer, pipeline=pipeline.pointer)
    text = ffi.new("char[]", json.dumps({"prompt_ids": ONE.tolist(), "seed": 5, "kwargs": {"do_sample": True, "top_k": 0, "max_new_tokens": 8}}).encode())
    request.json = text
    out, err = ffi.new("cdz_result **"), _core.new_error()
    _core.check(_core.library().cdz_generate(runtime.pointer, request, out, err), err)
    assert got.tolist() == [_core.Result(out[0]).sequence(0)]


def test_plugin_processor_in_their_loop(theirs):
    processor = inside.processor("frequency_penalty", frequency_penalty=5.0)
    kwargs = dict(do_sample=False, max_new_tokens=10)
    plain = theirs.generate(ONE, **kwargs)
    edited = theirs.generate(ONE, logits_processor=[processor], **kwargs)
    assert edited.tolist() != plain.tolist() and len(set(edited[0, 3:].tolist())) > len(set(plain[0, 3:].tolist()))
    again = theirs.generate(ONE, logits_processor=[processor], **kwargs)
    assert again.tolist() == edited.tolist()
    beams = theirs.generate(ONE, logits_processor=[processor], num_beams=3, **kwargs)
    assert beams.shape == (1, 13)
    stopped = theirs.generate(ONE, stopping_criteria=[inside.criterion("max_length", max_length=5)], **kwargs)
    assert stopped.shape == (1, 5)


def test_own_processors_and_errors_in_a_strategy(theirs):
    seen = []

    def watch(ids, scores):
        seen.append(tuple(ids.shape))
        if len(seen) == 6:
            raise KeyError("six")
        return scores

    decode = inside.strategy()
    theirs.generate(ONE, custom_generate=decode, logits_processor=[watch], do_sample=False, max_new_tokens=3)
    assert seen == [(1, 3), (1, 4), (1, 5)]
    with pytest.raises(KeyError, match="six"):
        theirs.generate(ONE, custom_generate=decode, logits_processor=[watch], do_sample=False, max_new_tokens=5)
    with pytest.raises(cadenza.UnsupportedError):
        theirs.generate(ONE, custom_generate=inside.strategy("org.cadenza.dola", dola_layers="low"), do_sample=False, max_new_tokens=3)


def test_error_of_the_forward_pass(theirs):
    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.config, self.device = theirs.config, theirs.device

        def forward(self, **kwargs):
            raise ZeroDivisionError("in forward")

    model = inside.TransformersModel(Broken())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="in forward"):
            model.generate(ONE, do_sample=False, max_new_tokens=3)


def test_processor_inside_a_callback_is_refused(ours):
    """The engine runs one that is in the list; a callback that calls it would wait for itself."""
    processor = inside.processor("dry", multiplier=2.0)
    want = ours.generate(ONE, do_sample=False, max_new_tokens=2, logits_processor=[lambda ids, scores: scores])
    assert (ours.generate(ONE, logits_processor=[processor], do_sample=False, max_new_tokens=2) == want).all()
    with pytest.raises(cadenza.StateError, match="engine's thread"):
        ours.generate(ONE, logits_processor=[lambda ids, scores: processor(ids, scores)], do_sample=False, max_new_tokens=2)
