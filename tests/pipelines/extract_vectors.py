#!/usr/bin/env python3
"""Takes the cases about configuration out of processor_vectors.json (made with transformers 5.3.0).

    extract_vectors.py processor_vectors.json > generation_vectors.json

Kinds `config`, `lengths` and `pipeline_order` as they are; of `pipeline` the parameters and the order only.
Class names become the parameter that switches the processor on, which is how Cadenza names its plugins."""
import json
import sys

PLUGIN = {
    "SequenceBiasLogitsProcessor": "sequence_bias",
    "EncoderRepetitionPenaltyLogitsProcessor": "encoder_repetition_penalty",
    "RepetitionPenaltyLogitsProcessor": "repetition_penalty",
    "NoRepeatNGramLogitsProcessor": "no_repeat_ngram_size",
    "EncoderNoRepeatNGramLogitsProcessor": "encoder_no_repeat_ngram_size",
    "NoBadWordsLogitsProcessor": "bad_words_ids",
    "MinLengthLogitsProcessor": "min_length",
    "MinNewTokensLengthLogitsProcessor": "min_new_tokens",
    "ForcedBOSTokenLogitsProcessor": "forced_bos_token_id",
    "ForcedEOSTokenLogitsProcessor": "forced_eos_token_id",
    "InfNanRemoveLogitsProcessor": "remove_invalid_values",
    "ExponentialDecayLengthPenalty": "exponential_decay_length_penalty",
    "SuppressTokensLogitsProcessor": "suppress_tokens",
    "SuppressTokensAtBeginLogitsProcessor": "begin_suppress_tokens",
    "TemperatureLogitsWarper": "temperature",
    "TopHLogitsWarper": "top_h",
    "TopKLogitsWarper": "top_k",
    "TopPLogitsWarper": "top_p",
    "MinPLogitsWarper": "min_p",
    "TypicalLogitsWarper": "typical_p",
    "EpsilonLogitsWarper": "epsilon_cutoff",
    "EtaLogitsWarper": "eta_cutoff",
    "LogitNormalization": "renormalize_logits",
}


def short(case):
    case = {k: v for k, v in case.items() if k not in ("scores_in", "scores_out", "compare", "min_tokens_to_keep",
                                                       "knife_edge", "tie_sensitive", "input_ids", "prompt_ids")}
    if case["kind"] == "pipeline":
        case["order"] = [PLUGIN[name] for name in case["order"]]
    if case["kind"] == "pipeline_order":
        case["order"] = [[PLUGIN[name], value] for name, value in case["order"]]
        case["params"]["custom"] = [[PLUGIN[name], value] for name, value in case["params"]["custom"]]
    return case


cases = json.load(open(sys.argv[1]))["cases"]
kinds = ("config", "lengths", "pipeline", "pipeline_order")
lines = [json.dumps(short(c)) for c in cases if c["kind"] in kinds]
print("[\n" + ",\n".join(lines) + "\n]")
