"""What objects of one's own are called with: each call of processors and criteria over transformers and over Cadenza, one by one.

Ids exactly, scores within 1e-4, and as many calls: whole batches, rows that ended filled with pad, all beams at once.
"""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import cadenza  # noqa: E402

DECODERS = ["gpt2", "llama_gqa"]
OTHERS = ["bloom", "mixtral", "lfm2", "mistral_sw", "gemma2"]  # of positions, experts, states and windows of their own
ENCODERS = ["t5_gated", "bart"]
# Ends: about a third of the vocabulary, so that rows of a batch end at different steps.
ENDS = dict(eos_token_id=list(range(3, 60)), pad_token_id=2, max_new_tokens=10)


def prompts(n=4, length=6, seed=3):
    return torch.randint(4, 200, (n, length), generator=torch.Generator().manual_seed(seed))


def left(ids):
    """A mask: rows of different lengths, padded on the left."""
    mask = torch.ones_like(ids)
    for row in range(len(ids)):
        mask[row, : row % 3] = 0
    return mask


class Recorder:
    """Keeps what it is called with, and edits a little: what comes back counts too."""

    def __init__(self, token=9, amount=1.0):
        self.calls, self.kept, self.token, self.amount = [], [], token, amount

    def process(self, input_ids, scores):
        self.calls.append(("processor", input_ids.clone(), scores.clone()))
        self.kept.append((input_ids, scores))
        made = scores.clone()
        made[:, self.token] += self.amount * (input_ids[:, -1] % 3)
        return made

    def test(self, input_ids, scores, **kwargs):
        copies = None if scores is None else tuple(score.clone() for score in scores)
        self.calls.append(("criterion", input_ids.clone(), copies))
        self.kept.append((input_ids, scores))
        return self.says(input_ids)

    def says(self, input_ids):
        return torch.zeros(len(input_ids), dtype=torch.bool)


class Odd(Recorder):
    """Ends rows of its own accord, those too that have ended."""

    def says(self, input_ids):
        return input_ids[:, -1] % 7 == 0


class Late(Recorder):
    """One word for all rows."""

    def says(self, input_ids):
        return input_ids.shape[1] >= 9


# A search looks at (ends + 1) * beams candidates: of many, neighbours are so close that rounding decides their order.
FEW = dict(eos_token_id=[9, 21, 33])
SCORES = dict(return_dict_in_generate=True, output_scores=True)
CASES = {
    "greedy": (Recorder, dict(do_sample=False)),
    "greedy, others edit too": (Recorder, dict(do_sample=False, repetition_penalty=1.3, no_repeat_ngram_size=2, sequence_bias={(11,): 1.5}, min_new_tokens=2)),
    "greedy, scores": (Recorder, dict(do_sample=False, **SCORES)),
    "greedy, a criterion that ends rows": (Odd, dict(do_sample=False)),
    "greedy, no end": (Odd, dict(do_sample=False, eos_token_id=None)),
    "greedy, one word": (Late, dict(do_sample=False)),
    "sampled": (Recorder, dict(do_sample=True, temperature=0.9, top_k=40, **SCORES)),
    "sampled, several": (Odd, dict(do_sample=True, num_return_sequences=3, top_p=0.9)),
    "beams": (Recorder, dict(do_sample=False, num_beams=3, **FEW)),
    "beams, several": (Recorder, dict(do_sample=False, num_beams=4, num_return_sequences=2, **FEW, **SCORES)),
    "beams, a criterion that ends rows": (Odd, dict(do_sample=False, num_beams=2, early_stopping=True, **FEW)),
    "beams, no end": (Odd, dict(do_sample=False, num_beams=2, eos_token_id=None)),
    "beam sample": (Recorder, dict(do_sample=True, num_beams=3, temperature=1.2, **FEW)),
}  # fmt: skip

_models = {}


def models(golden, name, encoder):
    if name not in _models:
        auto = "AutoModelForSeq2SeqLM" if encoder else "AutoModelForCausalLM"
        theirs = getattr(transformers, auto).from_pretrained(golden(name), dtype=torch.float32, attn_implementation="eager").eval()
        _models[name] = theirs, getattr(cadenza, auto).from_pretrained(golden(name), dtype=torch.float32)
    return _models[name]


def called(model, ids, mask, kind, kwargs):
    recorder = kind()
    torch.manual_seed(11)
    answer = model.generate(
        ids, attention_mask=mask, logits_processor=[recorder.process], stopping_criteria=[recorder.test], **{**ENDS, **kwargs}
    )
    return answer, recorder


def same_scores(want, found, where):
    assert found.shape == want.shape, f"{where}: {tuple(found.shape)}, expected {tuple(want.shape)}"
    torch.testing.assert_close(found, want, atol=1e-4, rtol=1e-4, msg=lambda text: f"{where}: {text}")


def same_call(want, found, where):
    assert found[0] == want[0], where
    assert torch.equal(found[1], want[1]), f"{where}: {found[1].tolist()}, expected {want[1].tolist()}"
    if isinstance(want[2], torch.Tensor):
        return same_scores(want[2], found[2], where)
    assert type(found[2]) is type(want[2]), f"{where}: {type(found[2])}, expected {type(want[2])}"
    assert want[2] is None or len(found[2]) == len(want[2]), where
    for step, pair in enumerate(zip(want[2] or (), found[2] or ())):
        same_scores(*pair, f"{where}, scores[{step}]")


def compare(theirs, ours, ids, mask, case):
    kind, kwargs = CASES[case]
    with torch.no_grad():
        want, wanted = called(theirs, ids, mask, kind, kwargs)
    answer, found = called(ours, ids, mask, kind, kwargs)
    for i, (a, b) in enumerate(zip(wanted.calls, found.calls)):
        same_call(a, b, f"call {i}")
    assert len(found.calls) == len(wanted.calls)
    sequences = (answer, want) if torch.is_tensor(want) else (answer.sequences, want.sequences)
    assert torch.equal(*sequences)
    if "output_scores" in kwargs:
        for step, pair in enumerate(zip(want.scores, answer.scores)):
            same_scores(*pair, f"the answer's scores[{step}]")
    for call, (kept_ids, kept_scores) in zip(found.calls, found.kept):
        assert torch.equal(call[1], kept_ids), "ids that were kept changed"
        if call[0] == "processor":
            assert torch.equal(call[2], kept_scores), "scores that were kept changed"
    return wanted


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("case", CASES)
def test_decoder(golden, name, case):
    ids = prompts()
    compare(*models(golden, name, False), ids, left(ids), case)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("case", ["greedy, others edit too", "beams, several"])
def test_other_families(golden, name, case):
    test_decoder(golden, name, case)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("case", CASES)
def test_encoder(golden, name, case):
    ids = prompts()
    compare(*models(golden, name, True), ids, torch.ones_like(ids), case)


def test_that_rows_end_apart(golden):
    """Else the others would compare little: some row has ended at a step at which another goes on."""
    ids = prompts()
    _, recorder = called(models(golden, "llama_gqa", False)[1], ids, left(ids), Recorder, dict(do_sample=False))
    padded = [(call[1][:, -1] == 2).sum().item() for call in recorder.calls if call[0] == "processor"]
    assert any(0 < n < len(ids) for n in padded) and all(len(call[1]) == len(ids) for call in recorder.calls)


def test_another_shape_in_place(golden):
    """The very object comes back, but no longer as it was given."""
    with pytest.raises(ValueError, match="another shape"):
        models(golden, "llama_gqa", False)[1].generate(prompts(), logits_processor=[lambda i, s: s.unsqueeze_(0)], **ENDS, do_sample=False)
