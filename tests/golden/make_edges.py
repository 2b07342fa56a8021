#!/usr/bin/env python3
"""Adds cases at the edges of what generate() takes to models that make_goldens.py made: masks and drafts, embeddings and
processors, prompt lookup that ends early, settings whose combination the reference does not foresee.

    python make_edges.py [MODEL...]         makes the cases that are missing, behind the others in cases.json

Needs what make_goldens.py needs: transformers 5.3.0, torch 2.9.1. A case whose id is there already is kept as it is.
docs/departures.md says in words what the optional ones and those named `departs/...` show.
"""
import json, os, sys

import make_goldens as mg

DRAFT = {"model": "llama_draft", "generation_config": {"num_assistant_tokens": 4, "assistant_confidence_threshold": 0.0}}


class Maker(mg.Maker):
    def save(self):
        made = {c["id"] for c in self.cases}
        every = [c for c in self.have.values() if c["id"] not in made] + self.cases
        with open(os.path.join(self.ctx.path, "cases.json"), "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":"), ensure_ascii=True) for c in every) + "\n]\n")


def row(rng, n, lo=4, hi=250):
    return [rng.randrange(lo, hi) for _ in range(n)]


def body(ids, kwargs, **more):
    return {"prompt_ids": ids, "kwargs": {"do_sample": False, "eos_token_id": None, "pad_token_id": 0, **kwargs}, **more}


def padded(rng, n, pads):
    return {"prompt_ids": [[0] * pads + row(rng, n)], "attention_mask": [[0] * pads + [1] * n]}


def without_scores(case):
    """An answer without a token has no scores to compare."""
    if case and not case["expect"]["scores"]["chosen"]:
        del case["expect"]["scores"]


def tokens_only(case):
    """What the reference does beside the tokens is its defect."""
    if case:
        case["expect"] = {"sequences": case["expect"]["sequences"]}


# ---------------------------------------------------------------- by model
def masks_and_drafts(mk):
    drawn = {"do_sample": True, "top_k": 0, "temperature": 0.8}
    for name, kwargs, more in (
        ("draft", {}, {"assistant": DRAFT}),
        ("draft_drawn", drawn, {"assistant": DRAFT}),
        ("exit", {"assistant_early_exit": 2}, {}),
        ("exit_drawn", {**drawn, "assistant_early_exit": 2}, {}),
    ):
        def fn(rng, kwargs=kwargs, more=more):
            p = padded(rng, 7, 4)
            seed = {"seed": rng.randrange(1, 10**6)} if "do_sample" in kwargs else {}
            return body(p["prompt_ids"], {"max_new_tokens": 18, **kwargs}, attention_mask=p["attention_mask"], **more, **seed)
        mk.make(f"edge/masked_{name}", "assisted", fn, record={"top": 3}, check=lambda c, e: any(r[1] > 0 for r in e["rounds"]))


def embeddings(mk):
    length = mk.ctx.tensors["alone"].shape[1]
    many = list(range(0, 300))
    def with_ids(rng, pads=0):
        return [[0] * pads + row(rng, length - pads)]
    mk.make("edge/embeds_pads_of_ids", "greedy", lambda rng: body(with_ids(rng, 3), {"max_new_tokens": 12},
            inputs_embeds="alone", attention_mask=None), record={"top": 3})
    for name, least in (("above", 6), ("below", -2)):
        mk.make(f"edge/embeds_min_length_{name}", "greedy", lambda rng, least=least: body(None,
                {"max_new_tokens": 12, "min_length": length + least, "eos_token_id": many}, inputs_embeds="alone"), record={"top": 3})
    penalties = {"encoder_repetition_penalty": 3.0, "encoder_no_repeat_ngram_size": 1, "max_new_tokens": 12}
    mk.make("edge/embeds_encoder_penalties", "greedy", lambda rng: body(None, penalties, inputs_embeds="alone"), record={"top": 3})
    mk.make("edge/embeds_encoder_penalties_ids", "greedy", lambda rng: body(with_ids(rng), penalties, inputs_embeds="alone"), record={"top": 3})
    mk.make("edge/embeds_chunks_ids", "greedy", lambda rng: body(with_ids(rng), {"max_new_tokens": 8, "prefill_chunk_size": 4},
            inputs_embeds="alone"), record={"top": 3})


def lookups(mk):
    def forbidden(rng):  # behind the first forbidden token nothing is allowed at all: nobody may ask
        a, b, c, d = row(rng, 4)
        cycle = [[c, *row(rng, 2)], row(rng, 3), [], [], [], []]
        return body([[a, b, c, d, a, b]], {"max_new_tokens": 2, "prompt_lookup_num_tokens": 3, "eos_token_id": 2,
                    "prefix_allowed_tokens": {"cycle": cycle}})
    mk.make("edge/lookup_stops_at_forbidden", "prompt_lookup", forbidden, record={"top": 2}, check=lambda c, e: e["rounds"][0][0] == 1)
    without_scores(mk.make("edge/lookup_prompt_ends_in_eos", "prompt_lookup", lambda rng: body([row(rng, 5, 80) + [77]],
            {"max_new_tokens": 4, "prompt_lookup_num_tokens": 3, "eos_token_id": 77})))
    without_scores(mk.make("edge/draft_of_nothing_behind_eos", "assisted", lambda rng: body([row(rng, 5, 80) + [77]],
            {"max_new_tokens": 1, "eos_token_id": 77}, assistant=DRAFT)))


def scores(mk):
    """-inf grows to NaN, which wins: there is no margin to measure"""
    cid = f"{mk.ctx.name}/edge/nan_is_not_finite"
    case = {"id": cid, "mode": "greedy", **body([list(range(90, 96))], {"eos_token_id": 5, "min_new_tokens": 4, "max_new_tokens": 6,
            "exponential_decay_length_penalty": [1, 1.5]}), "record": {"top": 2}}
    mg.M.reset()
    mk.cases.append(mk.have.get(cid) or {**case, "expect": mg.run(mk.ctx, case)})


def exits(mk):
    layers = mk.ctx.model.config.num_hidden_layers
    for name, n in (("first", 1), ("beyond", layers + 4)):
        mk.make(f"edge/exit_{name}", "assisted", lambda rng, n=n: body([row(rng, 8, 4, 200)], {"assistant_early_exit": n,
                "max_new_tokens": 10}), record={"top": 2})
        mk.make(f"edge/exit_{name}_drawn", "assisted", lambda rng, n=n: body([row(rng, 8, 4, 200)], {"assistant_early_exit": n,
                "max_new_tokens": 10, "do_sample": True, "top_k": 0}, seed=rng.randrange(1, 10**6)), record={"top": 2})


def chunks_and_drafts(mk):
    tokens_only(mk.make("departs/chunks_draft", "assisted", lambda rng: body([row(rng, 9)], {"prefill_chunk_size": 4,
            "max_new_tokens": 10}, assistant=DRAFT)))


def pairs(mk):
    start = mk.ctx.model.generation_config.decoder_start_token_id
    mk.make("edge/chunks_of_decoder_prompt", "greedy", lambda rng: body([row(rng, 6, 4, 200)], {"max_new_tokens": 6,
            "prefill_chunk_size": 2, "decoder_input_ids": [[start, *row(rng, 4, 4, 200)]]}), record={"top": 2})
    if start == mk.ctx.model.generation_config.eos_token_id:
        without_scores(mk.make("edge/lookup_start_is_eos", "prompt_lookup", lambda rng: body([row(rng, 6, 4, 200)],
                {"max_new_tokens": 6, "prompt_lookup_num_tokens": 3, "eos_token_id": start})))


EDGES = {
    "llama_gqa": (masks_and_drafts, embeddings, lookups, scores, exits, chunks_and_drafts),
    "bart": (pairs, exits),
    "t5_gated": (pairs,),
    "gpt2": (exits,),
    "gpt_neox": (exits,),
    "stablelm": (exits,),
    "gemma2": (exits,),
    "qwen3_moe": (exits,),
}


def main(models):
    for name in models or EDGES:
        path = os.path.join(mg.HERE, name)
        with open(os.path.join(path, "cases.json")) as f:
            have = {c["id"]: c for c in json.load(f)}
        mk = Maker(mg.Ctx(mg.HERE, name), 7, have=have)
        for make in EDGES[name]:
            make(mk)
        mk.save()
        print(name, len(mk.cases), "cases,", len(mk.failed), "failed")
    mg.write_index(mg.HERE)


if __name__ == "__main__":
    main(sys.argv[1:])
