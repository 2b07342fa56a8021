"""Small things of transformers' surface, by both: what configs, outputs, streamers and scores do when they are handled as users handle them.

Each probe is a function of (hf, model, ids) whose outcome is compared: what it returns, or the class of what it raises.
"""

import asyncio
import copy
import json
import pickle
import queue

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import cadenza  # noqa: E402
from conftest import GOLDEN  # noqa: E402
from test_twins import GREEDY, models, rows  # noqa: E402

DICT = dict(return_dict_in_generate=True, output_scores=True)


class Words:
    """A tokenizer of numbers."""

    def decode(self, ids, **kwargs):
        return "".join(f"{int(i)} " for i in ids) + ("!" if kwargs.get("mark") else "")


class Breaks(Words):
    def decode(self, ids, **kwargs):
        return "".join(f"{int(i)}\n" if int(i) % 2 else f"{int(i)}" for i in ids)


class Ideographs(Words):
    def decode(self, ids, **kwargs):
        return "".join(chr(0x4E00 + int(i)) for i in ids)


class Third:
    def __call__(self, input_ids, scores, more):
        return scores + more


def config(hf, **kwargs):
    return hf.GenerationConfig(**kwargs)


def kept(value):
    """A config's values that are set."""
    return {k: v for k, v in value.to_dict().items() if v is not None and k not in ("transformers_version", "_from_model_config")}


def out(m, ids, **kwargs):
    return m.generate(ids, **GREEDY, **DICT, **kwargs)


def printed(hf, tokenizer, puts, **kwargs):
    seen = []

    class Mine(hf.TextStreamer):
        def on_finalized_text(self, text, stream_end=False):
            seen.append((text, stream_end))

    streamer = Mine(tokenizer, **kwargs)
    for each in puts:
        streamer.put(each) if each is not None else streamer.end()
    return seen


def iterated(hf, fill, **kwargs):
    streamer = hf.TextIteratorStreamer(Words(), **kwargs)
    fill(streamer)
    return list(streamer)


def awaited(hf, fill, **kwargs):
    async def read():
        streamer = hf.AsyncTextIteratorStreamer(Words(), **kwargs)
        fill(streamer)
        return [piece async for piece in streamer]

    return asyncio.run(read())


def fill(streamer):
    streamer.put(torch.tensor([[1, 2]]))
    streamer.put(torch.tensor([3]))
    streamer.end()


def changed(hf, **kwargs):
    made = config(hf, max_new_tokens=5)
    return made.update(**kwargs), kept(made)


def strictly(hf, **kwargs):
    return config(hf, **kwargs).validate(strict=True)


def replaced(m, ids):
    made = out(m, ids)
    made["mine"] = 3
    made.scores = None
    return list(made.keys()), made.mine, made.scores is None


def deleted(m, ids, call):
    made = out(m, ids)
    return call(made)


def transition(m, ids, **kwargs):
    made = out(m, ids, **kwargs)
    return m.compute_transition_scores(made.sequences, made.scores, made.get("beam_indices"), normalize_logits=True)


def cut_transition(m, ids):
    made = out(m, ids, num_beams=2)
    return m.compute_transition_scores(made.sequences, made.scores, made.beam_indices), made.beam_indices


PROBES = {
    "config, defaults": lambda hf, m, ids: kept(config(hf)),
    "config, a name of one's own": lambda hf, m, ids: (kept(config(hf, mine=3)), config(hf, mine=3).mine),
    "config, no such name": lambda hf, m, ids: config(hf).no_such_name,
    "config, equal": lambda hf, m, ids: [config(hf, top_k=3) == config(hf, top_k=3), config(hf, top_k=3) == config(hf, top_k=4), config(hf) == 3, config(hf) != config(hf)],
    "config, hash": lambda hf, m, ids: hash(config(hf, max_length=3)) == hash(config(hf, max_length=3)),
    "config, in a set": lambda hf, m, ids: len({config(hf, max_length=3), config(hf, max_length=3), config(hf, max_length=4)}),
    "config, copied": lambda hf, m, ids: [kept(copy.deepcopy(config(hf, eos_token_id=[1, 2]))), kept(copy.copy(config(hf, mine=2))), kept(pickle.loads(pickle.dumps(config(hf, mine=2))))],
    "config, update": lambda hf, m, ids: changed(hf, top_k=3, other=4, num_beams=2),
    "config, update defaults": lambda hf, m, ids: changed(hf, defaults_only=True, max_new_tokens=9, num_beams=2),
    "config, update custom": lambda hf, m, ids: changed(hf, allow_custom_entries=True, other=4),
    "config, update wrong": lambda hf, m, ids: changed(hf, max_new_tokens=-1),
    "config, update nothing": lambda hf, m, ids: changed(hf),
    "config, from_dict": lambda hf, m, ids: kept(hf.GenerationConfig.from_dict({"top_k": 3, "mine": 1, "do_sample": True})),
    "config, from_dict with more": lambda hf, m, ids: kept(hf.GenerationConfig.from_dict({"top_k": 3}, do_sample=True, top_k=4)),
    "config, from_dict with rest": lambda hf, m, ids: (lambda pair: (kept(pair[0]), pair[1]))(hf.GenerationConfig.from_dict({"max_length": 3}, return_unused_kwargs=True, typo=3, max_length=4)),
    "config, json": lambda hf, m, ids: [json.loads(config(hf, max_length=3, mine={"b": 1}).to_json_string(use_diff=d)).get("mine") for d in (True, False)],
    "config, diff": lambda hf, m, ids: {k: v for k, v in config(hf, max_length=3, mine=2, eos_token_id=[1]).to_diff_dict().items() if k != "transformers_version"},
    "config, ignoring metadata": lambda hf, m, ids: [config(hf, mine=2).to_json_string(ignore_metadata=i).count("transformers_version") for i in (True, False)],
    "config, keys to pop": lambda hf, m, ids: "mine" in config(hf, mine=2).to_json_string(keys_to_pop=["mine"]),
    "config, strict": lambda hf, m, ids: strictly(hf, temperature=0.5),
    "config, strict and well": lambda hf, m, ids: strictly(hf, temperature=0.5, do_sample=True),
    "config, strict beams": lambda hf, m, ids: strictly(hf, early_stopping=True),
    "config, strict outputs": lambda hf, m, ids: strictly(hf, output_scores=True),
    "config, strict penalty": lambda hf, m, ids: strictly(hf, length_penalty=2.0),
    "config, strict cache": lambda hf, m, ids: strictly(hf, use_cache=False, cache_implementation="static"),
    "config, early_stopping": lambda hf, m, ids: config(hf, early_stopping="maybe"),
    "config, a processor inside": lambda hf, m, ids: config(hf, logits_processor=[1]),
    "config, a cache that is none": lambda hf, m, ids: config(hf, cache_implementation="mine"),
    "config, compile": lambda hf, m, ids: config(hf, compile_config=3),
    "config, negative pad": lambda hf, m, ids: kept(config(hf, pad_token_id=-1)),
    "config, watermark": lambda hf, m, ids: config(hf, watermarking_config={"bias": 3.0}).watermarking_config.to_dict(),
    "config, wrong watermark": lambda hf, m, ids: config(hf, watermarking_config={"seeding_scheme": "mine"}),
    "config, modes": lambda hf, m, ids: [config(hf, **k).get_generation_mode().value for k in ({}, dict(do_sample=True), dict(num_beams=2), dict(num_beams=2, do_sample=True), dict(prompt_lookup_num_tokens=2), dict(assistant_early_exit=1))],
    "config, from a folder": lambda hf, m, ids: kept(hf.GenerationConfig.from_pretrained(str(GOLDEN / "llama_gqa"))),
    "config, from a folder with rest": lambda hf, m, ids: hf.GenerationConfig.from_pretrained(str(GOLDEN / "llama_gqa"), return_unused_kwargs=True, typo=3, max_length=3)[1],
    "config, from no folder": lambda hf, m, ids: hf.GenerationConfig.from_pretrained("/no/such/folder"),
    "config, from the model's": lambda hf, m, ids: {k: v for k, v in kept(hf.GenerationConfig.from_model_config(m.config)).items() if v is not False},
    "config, text": lambda hf, m, ids: repr(config(hf, max_length=3)).splitlines()[:2],
    "output, keys": lambda hf, m, ids: list(out(m, ids)),
    "output, len": lambda hf, m, ids: len(out(m, ids)),
    "output, index": lambda hf, m, ids: [torch.equal(out(m, ids)[0], out(m, ids).sequences), len(out(m, ids)[1]), len(out(m, ids)[:2]), len(out(m, ids)[-1:])],
    "output, index too large": lambda hf, m, ids: out(m, ids)[9],
    "output, no such key": lambda hf, m, ids: out(m, ids)["logits"],
    "output, no such field": lambda hf, m, ids: out(m, ids).mine,
    "output, a field that is None": lambda hf, m, ids: [out(m, ids).logits, "logits" in out(m, ids), out(m, ids).get("logits", 3)],
    "output, unpacked": lambda hf, m, ids: [len(part) for part in list(out(m, ids).to_tuple())[:2]],
    "output, items": lambda hf, m, ids: [name for name, _ in out(m, ids).items()],
    "output, replaced": lambda hf, m, ids: replaced(m, ids),
    "output, deleted": lambda hf, m, ids: deleted(m, ids, lambda made: made.__delitem__("scores")),
    "output, popped": lambda hf, m, ids: deleted(m, ids, lambda made: made.pop("scores")),
    "output, setdefault": lambda hf, m, ids: deleted(m, ids, lambda made: made.setdefault("scores", 1)),
    "output, updated": lambda hf, m, ids: deleted(m, ids, lambda made: made.update({"scores": 1})),
    "output, star": lambda hf, m, ids: sorted(dict(**out(m, ids))),
    "output, classes": lambda hf, m, ids: [isinstance(out(m, ids), c) for c in (dict, hf.modeling_outputs.ModelOutput if hf is transformers else hf.ModelOutput)],
    "output, copied": lambda hf, m, ids: list(copy.copy(m.generate(ids, return_dict_in_generate=True, use_cache=False, output_scores=True, **GREEDY))),
    "output, pickled": lambda hf, m, ids: list(pickle.loads(pickle.dumps(m.generate(ids, return_dict_in_generate=True, use_cache=False, output_scores=True, **GREEDY)))),
    "output, made by hand": lambda hf, m, ids: (lambda c: [list(c(sequences=1, scores=2)), c(sequences=1).scores, c(1, 2).to_tuple(), c() .to_tuple()])(hf.generation.GenerateDecoderOnlyOutput),
    "output, truth": lambda hf, m, ids: bool(out(m, ids)),
    "transitions": lambda hf, m, ids: transition(m, ids),
    "transitions, beams": lambda hf, m, ids: transition(m, ids, num_beams=3),
    "transitions, several": lambda hf, m, ids: transition(m, ids, num_beams=3, num_return_sequences=3),
    "transitions, not changed": lambda hf, m, ids: cut_transition(m, ids),
    "transitions, cut": lambda hf, m, ids: (lambda o: m.compute_transition_scores(o.sequences, o.scores[:3]))(out(m, ids)),
    "transitions, a list": lambda hf, m, ids: (lambda o: m.compute_transition_scores(o.sequences, list(o.scores)))(out(m, ids)),
    "transitions, of logits": lambda hf, m, ids: (lambda o: m.compute_transition_scores(o.sequences, o.logits, normalize_logits=True))(out(m, ids, output_logits=True)),
    "transitions, half": lambda hf, m, ids: (lambda o: m.compute_transition_scores(o.sequences, tuple(s.double() for s in o.scores)).shape)(out(m, ids)),
    "text": lambda hf, m, ids: printed(hf, Words(), [torch.tensor([[1, 2]]), torch.tensor([3]), None]),
    "text, no prompt": lambda hf, m, ids: printed(hf, Words(), [torch.tensor([[1, 2]]), torch.tensor([3]), None], skip_prompt=True),
    "text, again": lambda hf, m, ids: printed(hf, Words(), [torch.tensor([[1]]), torch.tensor([3]), None, torch.tensor([[4]]), torch.tensor([5]), None], skip_prompt=True),
    "text, decode's": lambda hf, m, ids: printed(hf, Words(), [torch.tensor([[1]]), torch.tensor([3]), None], mark=True),
    "text, lines": lambda hf, m, ids: printed(hf, Breaks(), [torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([3]), torch.tensor([6]), None]),
    "text, ideographs": lambda hf, m, ids: printed(hf, Ideographs(), [torch.tensor([[1, 2]]), torch.tensor([3]), torch.tensor([4]), None]),
    "text, two rows": lambda hf, m, ids: printed(hf, Words(), [torch.tensor([[1, 2], [3, 4]])]),
    "text, end alone": lambda hf, m, ids: printed(hf, Words(), [None]),
    "text, generated": lambda hf, m, ids: (lambda seen: [m.generate(ids[:1], streamer=seen, **GREEDY)[0].tolist(), seen.token_cache, seen.print_len, seen.next_tokens_are_prompt])(hf.TextStreamer(Words())),
    "text, rows generated": lambda hf, m, ids: m.generate(ids, streamer=hf.TextStreamer(Words()), **GREEDY),
    "iterator": lambda hf, m, ids: iterated(hf, fill),
    "iterator, no prompt": lambda hf, m, ids: iterated(hf, fill, skip_prompt=True, timeout=1.0),
    "iterator, time over": lambda hf, m, ids: iterated(hf, lambda s: None, timeout=0.05),
    "iterator, time over in the middle": lambda hf, m, ids: iterated(hf, lambda s: s.put(torch.tensor([[1, 2]])), timeout=0.05),
    "iterator, itself": lambda hf, m, ids: (lambda s: iter(s) is s)(hf.TextIteratorStreamer(Words())),
    "iterator, generated": lambda hf, m, ids: iterated(hf, lambda s: m.generate(ids[:1], streamer=s, **GREEDY), timeout=5),
    "iterator, end signal": lambda hf, m, ids: (lambda s: [fill(s), s.text_queue.qsize(), s.stop_signal, isinstance(s.text_queue, queue.Queue)])(hf.TextIteratorStreamer(Words())),
    "async": lambda hf, m, ids: awaited(hf, fill),
    "async, no prompt": lambda hf, m, ids: awaited(hf, fill, skip_prompt=True),
    "async, time over": lambda hf, m, ids: awaited(hf, lambda s: None, timeout=0.05),
    "async, outside a loop": lambda hf, m, ids: hf.AsyncTextIteratorStreamer(Words()),
    "async, generated": lambda hf, m, ids: awaited(hf, lambda s: m.generate(ids[:1], streamer=s, **GREEDY), timeout=5),
    "cache, length": lambda hf, m, ids: [out(m, ids).past_key_values.get_seq_length(), len(out(m, ids).past_key_values), out(m, ids).past_key_values.get_max_cache_shape()],
    "cache, empty": lambda hf, m, ids: [hf.DynamicCache().get_seq_length(), len(hf.DynamicCache())],
    "cache, cropped": lambda hf, m, ids: (lambda c: [c.crop(5), c.get_seq_length(), c.crop(-2), c.get_seq_length(), c.crop(99), c.get_seq_length()])(out(m, ids).past_key_values),
    "cache, filled": lambda hf, m, ids: (lambda c: [m.generate(ids, past_key_values=c, **GREEDY), c.get_seq_length()])(hf.DynamicCache()),
    "cache, copied": lambda hf, m, ids: (lambda o: (lambda c: [c.crop(3), c.get_seq_length(), o.past_key_values.get_seq_length()])(copy.deepcopy(o.past_key_values)))(out(m, ids)),
    "cache, handed back": lambda hf, m, ids: (lambda c: m.generate(ids, past_key_values=c, return_dict_in_generate=True, **GREEDY).past_key_values is c)(hf.DynamicCache()),
    "cache, layers": lambda hf, m, ids: (lambda c: [c.get_seq_length() > 0, c.is_sliding, type(c).__name__])(out(m, ids).past_key_values),
    "criteria, lists": lambda hf, m, ids: [hf.StoppingCriteriaList([hf.MaxLengthCriteria(3)]).max_length, hf.StoppingCriteriaList().max_length],
    "criteria, called": lambda hf, m, ids: hf.StoppingCriteriaList([hf.MaxLengthCriteria(3), hf.EosTokenCriteria(5)])(ids, None),
    "processors, called": lambda hf, m, ids: hf.LogitsProcessorList([hf.TopKLogitsWarper(2)])(ids, torch.arange(20.0).reshape(2, 10)),
    "processors, third argument": lambda hf, m, ids: hf.LogitsProcessorList([Third()])(ids, torch.zeros(2, 10)),
    "processors, given third": lambda hf, m, ids: hf.LogitsProcessorList([Third()])(ids, torch.zeros(2, 10), more=2),
    "base processor": lambda hf, m, ids: hf.LogitsProcessor()(ids, None),
    "base criterion": lambda hf, m, ids: hf.StoppingCriteria()(ids, None),
    "base streamer": lambda hf, m, ids: hf.generation.streamers.BaseStreamer().put(3),
    "generate, no arguments": lambda hf, m, ids: m.generate(max_new_tokens=2, do_sample=False).shape,
    "generate, both ids": lambda hf, m, ids: m.generate(ids, input_ids=ids),
    "generate, a dict for a config": lambda hf, m, ids: m.generate(ids, generation_config={"max_new_tokens": 3}),
    "generate, by place": lambda hf, m, ids: m.generate(ids, config(hf, **GREEDY), [lambda i, s: s], [lambda i, s, **k: False], None, False, None, None),
    "generate, None everywhere": lambda hf, m, ids: m.generate(ids, logits_processor=None, stopping_criteria=None, streamer=None, assistant_model=None, unknown=None, **GREEDY),
    "generate, a typo": lambda hf, m, ids: m.generate(ids, max_new_token=3),
    "generate, config unchanged": lambda hf, m, ids: (lambda c: [m.generate(ids, generation_config=c, max_new_tokens=2).shape, c.max_new_tokens])(config(hf, **GREEDY)),
    "generate, lists unchanged": lambda hf, m, ids: (lambda p: [m.generate(ids, logits_processor=p, top_k=3, **{**GREEDY, "do_sample": True}).shape, len(p)])(hf.LogitsProcessorList()),
    "generate, length too small": lambda hf, m, ids: m.generate(ids, max_length=3),
    "can_generate": lambda hf, m, ids: [m.can_generate(), m.main_input_name, m.training, str(m.device), str(m.dtype), m.name_or_path == str(GOLDEN / "llama_gqa")],
}  # fmt: skip


def outcome(probe, *args):
    torch.manual_seed(3)
    try:
        return "returns", probe(*args)
    except Exception as error:
        return "raises", error


def same(want, found, where="answer"):
    if isinstance(want, torch.Tensor):
        assert isinstance(found, torch.Tensor) and found.shape == want.shape and found.dtype == want.dtype, f"{where}: {found}, expected {want}"
        torch.testing.assert_close(found, want, atol=2e-4, rtol=2e-4)
    elif isinstance(want, (list, tuple)):
        assert type(found) is type(want) and len(found) == len(want), f"{where}: {found}, expected {want}"
        for i, pair in enumerate(zip(want, found)):
            same(*pair, f"{where}[{i}]")
    else:
        assert found == want, f"{where}: {found}, expected {want}"


@pytest.mark.parametrize("name", PROBES, ids=str)
def test_probe(golden, name):
    theirs, ours = models(golden, "llama_gqa", False)
    with torch.no_grad():
        want = outcome(PROBES[name], transformers, theirs, rows())
    found = outcome(PROBES[name], cadenza, ours, rows())
    assert found[0] == want[0], f"{found[0]} {found[1]!r}, expected: {want[0]} {want[1]!r}"
    if want[0] == "raises":
        assert isinstance(found[1], type(want[1])), f"{found[1]!r}, expected {want[1]!r}"
    else:
        same(want[1], found[1])


@pytest.mark.parametrize("name", ["gpt2", "mistral_sw", "gemma2"])
def test_layers_of_caches(golden, name):
    found = [out(m, rows()).past_key_values for m in models(golden, name, False)]
    same([found[0].is_sliding, len(found[0])], [found[1].is_sliding, len(found[1])])
