"""From a description (families.py) to a folder that transformers and Cadenza both open."""
from __future__ import annotations

import copy
import json
import math
import os
from typing import Any

import torch
import transformers
from golden import golden, plan, plan_more

Json = dict[str, Any]

WORDS = """the sea and the sand are near the inn then he sat on a hat in the rain and ate ten red hens
face a cafe bed that fed cab and deaf dear dad did not hear the tide nor the tired horse that stood on the other side a train ran to the north and east
she had no idea dress rest nest test stone tone done dine hand land stand trade raid india attend intend
"""


def make_tokenizer(folder: str, vocab: int) -> None:
    """Byte-level BPE of fifteen letters, so that a model of forty tokens has one: stop strings and healing need texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=vocab, min_frequency=1, special_tokens=special, show_progress=False)
    t.train_from_iterator([WORDS] * 4, trainer)
    if t.get_vocab_size() != vocab:
        raise ValueError(f"a tokenizer of {vocab} tokens came out with {t.get_vocab_size()}")
    names = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), special))
    transformers.PreTrainedTokenizerFast(tokenizer_object=t, padding_side="left", clean_up_tokenization_spaces=False,
                                         **names).save_pretrained(folder)


def _config(description: Json) -> Any:
    return getattr(transformers, description["class"])(**copy.deepcopy(description["config"]))


def _init(description: Json) -> Json:
    """Narrow models need larger heads, for scores as far apart as those of wide ones."""
    config, init = description["config"], dict(description["init"])
    width = config.get("hidden_size") or config.get("n_embd") or config.get("d_model")
    init.setdefault("head", 0.55 * math.sqrt(48 / width))
    return init


def _generation(model: Any, description: Json) -> Json:
    own = {k: getattr(model.config, k, None) for k in ("bos_token_id", "eos_token_id", "pad_token_id")}
    return {**{k: v for k, v in own.items() if v is not None}, **description.get("generation", {})}


def _fresh(description: Json, seed: int) -> Any:
    """The model with weights drawn, by the plan that its family is recorded with."""
    init = _init(description)
    if description.get("init_by") != "family":
        return golden.build(_config(description), seed, **init)
    init = {k: NAMED.get(v, v) if isinstance(v, str) else v for k, v in init.items()}
    return plan.fam(None, seed, init)["build"](_config(description), seed)


NAMED = {"embeddings": plan_more.embeddings, "turned": plan_more.turned, "xielu": plan_more.xielu}
AFTER = {"G3N": plan.G3N, "NEMO": plan.NEMO}  # names that published checkpoints have
LAYERS = ("num_decoder_layers", "decoder_layers", "n_layer", "n_layers", "num_hidden_layers")
PER_LAYER = ("layer_types", "layers_block_type", "intermediate_size", "activation_sparsity_pattern")


def _draft_of(target: Any, description: Json) -> Any:
    """The target's first layers with a little noise."""
    how = description["draft"]
    small = copy.deepcopy(description)
    name = next((k for k in LAYERS if k in small["config"]), None)
    if name and not how.get("whole"):
        small["config"][name] = layers = min(how["layers"], small["config"][name])
        for key in PER_LAYER:
            if isinstance(small["config"].get(key), list):
                small["config"][key] = small["config"][key][:layers]
    draft = _fresh(small, how["seed"]) if "init_by" in small else golden.build(_config(small), how["seed"])
    weights, generator = target.state_dict(), torch.Generator().manual_seed(how["seed"])
    for key, p in draft.named_parameters():
        w = weights[key]
        noise = how["noise"] * w.std() * torch.randn(w.shape, generator=generator) if w.dim() > 1 else 0
        p.data.copy_(w + noise)
    if hasattr(draft, "final_logits_bias"):
        draft.final_logits_bias.copy_(target.final_logits_bias)
    draft.tie_weights()
    return draft


def _save(model: Any, folder: str, description: Json, generation: Json) -> None:
    os.makedirs(folder, exist_ok=True)
    model.generation_config = transformers.GenerationConfig()
    model.to(getattr(torch, description["dtype"])).save_pretrained(folder)
    with open(os.path.join(folder, "generation_config.json"), "w") as f:  # by hand: real ones hold what saving refuses
        json.dump(generation, f, indent=1, sort_keys=True)
    if "after" in description:
        AFTER[description["after"]](folder)
    if description.get("old_style"):
        golden.legacy_config(folder, description["family"])


def build(description: Json, folder: str) -> None:
    """folder/m, the model, and folder/d, its draft."""
    model = _fresh(description, description["seed"])
    draft = _draft_of(model, description)
    own = _generation(model, description)
    _save(model, os.path.join(folder, "m"), description, own)
    _save(draft, os.path.join(folder, "d"), description, {k: v for k, v in own.items() if k.endswith("_token_id")})
    make_tokenizer(os.path.join(folder, "m"), description["config"]["vocab_size"])
    with open(os.path.join(folder, "description.json"), "w") as f:
        json.dump(description, f)
