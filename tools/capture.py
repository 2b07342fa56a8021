#!/usr/bin/env python3
"""Records what transformers' generate() does with a model, for `cadenza parity` to replay.

    python tools/capture.py MODEL [--out FOLDER] [--prompt TEXT]... [--modes greedy,beam] [--cases FILE]
    cadenza parity MODEL

Writes cases.json and logits.safetensors into MODEL, or into FOLDER beside links to the model's files. A case is run again
with a little noise on all logits: where that changes a token, another order of summation might too, and the case is left
out. Needs torch, transformers and safetensors; the model is loaded in float32 on the CPU, from local files alone, and no
code of its own is run. The schema is in tests/golden/README.md; docs/parity.md shows the way.
"""
import argparse, copy, json, math, os, random, sys, warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")

import torch
import transformers
from safetensors.torch import save_file
from transformers.generation import candidate_generator

transformers.logging.set_verbosity(50)
transformers.logging.disable_progress_bar()
torch.set_grad_enabled(False)

NOISE = 3e-4  # on every logit; float32 sums differ by a tenth of it
RERUNS = 2
TOP = 5  # scores recorded per step
BUILT_IN = ("logits", "greedy", "sample", "beam", "beam_sample", "prompt_lookup", "assisted")
SPECULATIVE = ("assistant", "prompt_lookup_num_tokens", "assistant_early_exit")


def load(path):
    config = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
    kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(path, local_files_only=True, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


def load_tokenizer(path):
    try:
        return transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
    except Exception:  # a model without one is fine: prompts are ids then
        return None


# ---------------------------------------------------------------- numbers as JSON has them
def num(x):
    x = float(x)
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    return float(f"{x:.7g}")


def nums(x):
    return [nums(v) for v in x] if isinstance(x, (list, tuple)) else nums(x.tolist()) if torch.is_tensor(x) else num(x)


# ---------------------------------------------------------------- what to record
def prompts_of(args, model, tokenizer):
    """Prompts as lists of ids: the texts given, or random ids."""
    if args.prompt and tokenizer is None:
        sys.exit("capture: the model has no tokenizer; leave --prompt out")
    if args.prompt:
        return [tokenizer(text)["input_ids"] for text in args.prompt]
    rng = random.Random(args.seed)
    size = model.config.get_text_config().vocab_size
    special = set(tokenizer.all_special_ids) if tokenizer else set(range(min(4, size // 2)))
    plain = [i for i in range(size) if i not in special]
    return [[rng.choice(plain) for _ in range(n)] for n in (12, 7)]


def padded(prompts, pad, left):
    width = max(len(p) for p in prompts)
    fill = [[pad] * (width - len(p)) for p in prompts]
    ones = [[1] * len(p) for p in prompts]
    none = [[0] * len(f) for f in fill]
    rows = list(zip(prompts, fill, ones, none))
    return [f + p if left else p + f for p, f, _, _ in rows], [z + o if left else o + z for _, _, o, z in rows]


def plan(args, model, prompts):
    """The cases, without what is expected."""
    gc, new = model.generation_config, {"max_new_tokens": args.new}
    eos = gc.eos_token_id[0] if isinstance(gc.eos_token_id, list) else gc.eos_token_id
    pad = next((p for p in (gc.pad_token_id, eos) if p is not None), 0)
    one = [{"prompt_ids": [p]} for p in prompts]
    rows, mask = padded(prompts, pad, not model.config.is_encoder_decoder)
    batch = {"prompt_ids": rows, "attention_mask": mask}
    kinds = {
        "logits": [] if model.config.is_encoder_decoder else [(p, {}) for p in one],
        "greedy": [(p, {"do_sample": False}) for p in one]
        + [(batch, {"do_sample": False, "pad_token_id": pad}), (one[0], {"do_sample": False, "repetition_penalty": 1.3, "no_repeat_ngram_size": 3})],
        "sample": [(one[0], {"do_sample": True, "temperature": t, "top_k": k, "top_p": p}) for t, k, p in ((1.0, 50, 1.0), (0.8, 0, 0.9))],
        "beam": [(one[0], {"do_sample": False, "num_beams": 3, "num_return_sequences": 2}), (batch, {"do_sample": False, "num_beams": 2, "pad_token_id": pad})],
        "beam_sample": [(one[0], {"do_sample": True, "num_beams": 2})],
        "prompt_lookup": [(one[0], {"do_sample": False, "prompt_lookup_num_tokens": 3})],
        "assisted": [(one[0], {"do_sample": False})] if args.assistant else [],
    }
    cases = []
    for mode in args.modes:
        for i, (prompt, kwargs) in enumerate(kinds[mode]):
            case = {"id": f"{mode}/{i}", "mode": mode, **prompt, "kwargs": kwargs if mode == "logits" else {**new, **kwargs}}
            if mode == "assisted":
                case["assistant"] = {"model": args.assistant}
            if "sample" in mode:
                case["seed"] = args.seed + i
            if mode not in ("logits", "beam", "beam_sample"):
                case["record"] = {"top": TOP}
            cases.append(case)
    return cases


# ---------------------------------------------------------------- running a case
class Capture:
    def __init__(self, args):
        self.root = args.model
        self.model = load(args.model)
        self.tokenizer = load_tokenizer(args.model)
        self.config = copy.deepcopy(self.model.generation_config)
        self.drafts, self.rounds, self.logits = {}, [], {}
        for kind in (candidate_generator.AssistedCandidateGenerator, candidate_generator.PromptLookupCandidateGenerator):
            self.watch(kind)

    def watch(self, kind):
        """Notes each round of an assisted run: candidates, accepted."""
        original = kind.update_candidate_strategy

        def update(generator, ids, scores, n_matches):
            self.rounds.append([int(scores.shape[1]) - 1, int(n_matches)])
            return original(generator, ids, scores, n_matches)

        kind.update_candidate_strategy = update

    def arguments(self, case):
        kwargs = {}
        for name, value in case["kwargs"].items():
            if name == "watermarking_config":
                value = dict(value)
                synthid = value.pop("type", "greenlist") == "synthid"
                value = (transformers.SynthIDTextWatermarkingConfig if synthid else transformers.WatermarkingConfig)(**value)
            elif name in ("negative_prompt_ids", "negative_prompt_attention_mask", "decoder_input_ids", "decoder_attention_mask"):
                value = torch.tensor(value)
            elif name == "exponential_decay_length_penalty" and value is not None:
                value = tuple(value)
            kwargs[name] = value
        if kwargs.get("stop_strings") or kwargs.get("token_healing"):
            kwargs["tokenizer"] = self.tokenizer
        if case.get("assistant"):
            name = case["assistant"]["model"]
            draft = self.drafts.setdefault(name, load(os.path.join(os.path.dirname(os.path.abspath(self.root)), name)))
            for key, value in case["assistant"].get("generation_config", {}).items():
                setattr(draft.generation_config, key, value)
            kwargs["assistant_model"] = draft
        if case["prompt_ids"] is None:
            return None, kwargs
        ids = torch.tensor(case["prompt_ids"])
        mask = case.get("attention_mask", "ones")
        if mask is not None:
            kwargs["attention_mask"] = torch.ones_like(ids) if mask == "ones" else torch.tensor(mask)
        return ids, kwargs

    def run(self, case):
        if case["mode"] == "logits":
            return self.run_logits(case)
        self.model.generation_config = copy.deepcopy(self.config)
        self.rounds = []
        ids, kwargs = self.arguments(case)
        if "seed" in case:
            torch.manual_seed(case["seed"])
        out = self.model.generate(ids, return_dict_in_generate=True, output_scores=True, **kwargs)
        return self.searched(out) if getattr(out, "sequences_scores", None) is not None else self.plain(case, out, kwargs)

    def run_logits(self, case):
        logits = self.model(torch.tensor(case["prompt_ids"])).logits[0].float().contiguous()
        name = case["id"].replace("/", "")
        self.logits[name] = logits
        return {"tensor": name, "argmax": logits.argmax(-1).tolist()}

    def searched(self, out):
        transition = self.model.compute_transition_scores(out.sequences, out.scores, out.beam_indices, normalize_logits=False)
        return {"sequences": out.sequences.tolist(), "sequences_scores": nums(out.sequences_scores),
                "beam_indices": out.beam_indices.tolist(), "n_steps": len(out.scores), "transition_scores": nums(transition)}

    def plain(self, case, out, kwargs):
        n_steps, rows = len(out.scores), out.sequences.tolist()
        new = [row[len(row) - n_steps:] for row in rows]
        eos = kwargs.get("eos_token_id", self.config.eos_token_id)
        ends = set(eos) if isinstance(eos, list) else {eos}
        # Steps of a row up to the first end-of-sequence token; what a row that had ended scores means nothing.
        live = [next((s + 1 for s, t in enumerate(row) if t in ends), n_steps) for row in new]
        expect = {"sequences": rows}
        if "stop_strings" in case["kwargs"]:
            return expect
        best = [torch.topk(s.float(), min(TOP, s.shape[1])) for s in out.scores]
        known = [[s < n for n in live] for s in range(n_steps)]
        expect["scores"] = {
            "chosen": [[num(out.scores[s][r, new[r][s]]) if k else None for r, k in enumerate(ks)] for s, ks in enumerate(known)],
            "top_ids": [b.indices.tolist() for b in best],
            "top_vals": [[nums(b.values[r]) if k else [None] * b.values.shape[1] for r, k in enumerate(ks)] for b, ks in zip(best, known)],
        }
        if any(key in case or key in kwargs for key in SPECULATIVE):
            expect["rounds"] = self.rounds
        return expect

    def steady(self, case, expect):
        """Whether the case gives the same tokens with noise on the logits of every model it uses."""
        noise = torch.Generator().manual_seed(1)

        def shake(module, arguments, out):
            out.logits = out.logits + (torch.rand(out.logits.shape, generator=noise) * 2 - 1) * NOISE
            return out

        saved, keys = dict(self.logits), ("sequences", "argmax", "rounds", "n_steps", "beam_indices")
        hooks = [m.register_forward_hook(shake) for m in [self.model, *self.drafts.values()]]
        try:
            again = [self.run(case) for _ in range(RERUNS)]
        finally:
            for hook in hooks:
                hook.remove()
            self.logits = saved
        return all(e.get(k) == expect.get(k) for e in again for k in keys)


# ---------------------------------------------------------------- the whole
def capture_all(capture, cases):
    done = []
    for case in cases:
        case = {**case, "reference": transformers.__version__}
        case.setdefault("kwargs", {})
        try:
            expect = capture.run(case)
        except Exception as error:
            print(f"{case['id']}: left out: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            continue
        if not capture.steady(case, expect):
            capture.logits.pop(expect.get("tensor"), None)
            print(f"{case['id']}: left out: a decision is closer than {NOISE:g}")
            continue
        done.append({**case, "expect": expect})
    return done


def link_model(model, out):
    os.makedirs(out, exist_ok=True)
    for name in os.listdir(model):
        to = os.path.join(out, name)
        if name not in ("cases.json", "logits.safetensors") and not os.path.lexists(to):
            os.symlink(os.path.abspath(os.path.join(model, name)), to)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder")
    parser.add_argument("--out", help="write there, beside links to the model's files")
    parser.add_argument("--prompt", action="append", help="a prompt; again for more. Default: two rows of random ids")
    parser.add_argument("--modes", default=",".join(BUILT_IN), help="of the built-in cases: " + ", ".join(BUILT_IN))
    parser.add_argument("--cases", help="a JSON list of further cases: id, mode, prompt_ids, kwargs, ... without expect")
    parser.add_argument("--assistant", help="a draft model: a folder beside the model's, by name")
    parser.add_argument("--new", type=int, default=16, help="new tokens of the built-in cases (16)")
    parser.add_argument("--seed", type=int, default=0, help="of random prompts and of sampled cases (0)")
    args = parser.parse_args()
    args.modes = [m for m in args.modes.split(",") if m]
    unknown = [m for m in args.modes if m not in BUILT_IN]
    if unknown:
        parser.error(f"--modes {unknown[0]}: none of {', '.join(BUILT_IN)}; other modes come from --cases")
    return args


def main():
    args = arguments()
    capture = Capture(args)
    cases = plan(args, capture.model, prompts_of(args, capture.model, capture.tokenizer))
    if args.cases:
        with open(args.cases) as f:
            cases += json.load(f)
    done = capture_all(capture, cases)
    out = args.out or args.model
    if args.out:
        link_model(args.model, args.out)
    with open(os.path.join(out, "cases.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in done) + "\n]\n")
    if capture.logits:
        save_file(capture.logits, os.path.join(out, "logits.safetensors"))
    print(f"{len(done)} of {len(cases)} cases; replay them with: cadenza parity {out}")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
