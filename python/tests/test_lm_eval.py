"""lm-eval's numbers with --model cadenza are those with --model hf, on small tasks made of the dictionary's entries."""

import json
import random

import pytest

lm_eval = pytest.importorskip("lm_eval")
pytest.importorskip("datasets")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
import cadenza.lm_eval  # noqa: E402
from conftest import DICTIONARY  # noqa: E402

WORDS = "river dog tree house king stone horse bread".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The dictionary without its own max_new_tokens, which in transformers wins over the length that lm-eval gives."""
    made = tmp_path_factory.mktemp("model")
    for file in DICTIONARY.iterdir():
        if file.name != "generation_config.json":
            (made / file.name).symlink_to(file)
    config = json.loads((DICTIONARY / "generation_config.json").read_text())
    config.pop("max_new_tokens")
    (made / "generation_config.json").write_text(json.dumps(config))
    return str(made)


def entries():
    """(word, what the model says of it): its own greedy answers, which both models are asked about."""
    model = cadenza.Model.from_pretrained(DICTIONARY)
    tokenizer = cadenza.Tokenizer(model)
    made = []
    for word in WORDS:
        (row,) = model.generate([tokenizer.encode(f"{word} (noun):")], do_sample=False, max_new_tokens=24)
        made.append((word, tokenizer.decode(row, skip_special_tokens=True)[len(f"{word} (noun):") :]))
    return made


def tasks():
    """A choice of four, an answer to write, and texts to rate."""
    import datasets
    from lm_eval.api.task import ConfigurableTask

    known, dice = entries(), random.Random(7)
    docs = []
    for word, meaning in known:
        wrong = dice.sample([other for name, other in known if name != word], 3)
        choices = [meaning, *wrong]
        dice.shuffle(choices)
        docs.append({"word": word, "choices": choices, "gold": choices.index(meaning), "text": f"{word} (noun):{meaning}", "start": meaning[:9]})

    def task(name, **config):
        return ConfigurableTask(config={
            "task": name, "custom_dataset": lambda **kwargs: datasets.DatasetDict({"test": datasets.Dataset.from_list(docs)}),
            "test_split": "test", "num_fewshot": 0, **config,
        })  # fmt: skip

    return [
        task("meaning", output_type="multiple_choice", doc_to_text="{{word}} (noun):", doc_to_choice="choices", doc_to_target="gold",
             target_delimiter="", metric_list=[{"metric": "acc"}, {"metric": "acc_norm"}]),
        task("define", output_type="generate_until", doc_to_text="{{word}} (noun):", doc_to_target="start", target_delimiter="",
             generation_kwargs={"until": [".", ";"], "max_gen_toks": 20, "do_sample": False}, metric_list=[{"metric": "exact_match"}]),
        task("rate", output_type="loglikelihood_rolling", doc_to_text="", doc_to_target="text", metric_list=[{"metric": "word_perplexity"}, {"metric": "bits_per_byte"}]),
    ]  # fmt: skip


def test_numbers_are_those_of_hf(folder):
    import lm_eval.models  # noqa: F401
    from lm_eval.api.registry import get_model

    made = {}
    hf = get_model("hf")(pretrained=folder, dtype="float32", device="cpu", batch_size=8)
    ours = get_model("cadenza")(pretrained=folder)
    for name, model in (("hf", hf), ("cadenza", ours)):
        made[name] = lm_eval.simple_evaluate(model=model, tasks=tasks(), log_samples=True, bootstrap_iters=0)
    for task, found in made["hf"]["results"].items():
        for metric, value in found.items():
            if isinstance(value, float):
                assert made["cadenza"]["results"][task][metric] == pytest.approx(value, rel=1e-5), (task, metric)
    assert made["cadenza"]["results"]["meaning"]["acc,none"] > 0.8
    for task, samples in made["hf"]["samples"].items():
        for theirs, mine in zip(samples, made["cadenza"]["samples"][task]):
            assert json.dumps(theirs["doc"]) == json.dumps(mine["doc"])
            compare(theirs["filtered_resps"], mine["filtered_resps"], task)


def compare(theirs, mine, task):
    if isinstance(theirs, (list, tuple)):
        assert len(theirs) == len(mine)
        for a, b in zip(theirs, mine):
            compare(a, b, task)
    elif isinstance(theirs, float):
        assert mine == pytest.approx(theirs, rel=1e-4, abs=1e-3), task
    else:
        assert mine == theirs, task


def test_requests(tokenizer):
    """The interface itself: order, empty lists, chat, and what is remembered."""
    from lm_eval.api.instance import Instance

    model = cadenza.lm_eval.CadenzaLM(str(DICTIONARY))
    assert model.loglikelihood([]) == model.generate_until([]) == model.loglikelihood_rolling([]) == []
    asked = [Instance("loglikelihood", {}, ("river (noun):", text), i) for i, text in enumerate([" a large natural stream", " a dog", " a large"])]
    answers = model.loglikelihood(asked)
    assert [greedy for _, greedy in answers] == [True, False, True] and answers[2][0] > answers[0][0] > answers[1][0]
    until = Instance("generate_until", {}, ("river (noun):", {"until": [" water"], "max_gen_toks": 30}), 0)
    assert model.generate_until([until]) == [" a large natural stream of"]
    made = cadenza.lm_eval.CadenzaLM.create_from_arg_string(f"pretrained={DICTIONARY},max_length=64", {"batch_size": 4})
    assert made.max_length == 64 and made.batch_size == 4 and made.tokenizer_name
