"""transformers' own processors as objects, over torch tensors and NumPy arrays: for custom_generate loops and by hand.

generate() does not use them: the library's are its own. Inputs stay unchanged.
"""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence

from .arrays import copy_of, ids_array, is_torch, module_of, plain
from .biases import (
    EncoderNoRepeatNGramLogitsProcessor,
    EncoderRepetitionPenaltyLogitsProcessor,
    ExponentialDecayLengthPenalty,
    ForcedBOSTokenLogitsProcessor,
    ForcedEOSTokenLogitsProcessor,
    NoBadWordsLogitsProcessor,
    SequenceBiasLogitsProcessor,
    StopStringCriteria,
    SuppressTokensAtBeginLogitsProcessor,
)
from .config import GenerationConfig
from .cuts import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    TopHLogitsWarper,
    TypicalLogitsWarper,
    fill,
    greatest,
    log_softmax,
    softmax,
)
from .errors import UnsupportedError
from .processors import (
    EosTokenCriteria,
    LogitsProcessor,
    LogitsProcessorList,
    MaxLengthCriteria,
    MaxTimeCriteria,
    StoppingCriteriaList,
)

__all__ = [
    "LogitsWarper",
    "TemperatureLogitsWarper",
    "TopKLogitsWarper",
    "TopPLogitsWarper",
    "MinPLogitsWarper",
    "RepetitionPenaltyLogitsProcessor",
    "MinLengthLogitsProcessor",
    "MinNewTokensLengthLogitsProcessor",
    "SuppressTokensLogitsProcessor",
    "NoRepeatNGramLogitsProcessor",
    "InfNanRemoveLogitsProcessor",
    "LogitNormalization",
]


class LogitsWarper(LogitsProcessor):
    """The old name of the processors that cut."""


class TemperatureLogitsWarper(LogitsProcessor):
    """Scores are divided by the temperature, a float above 0: ValueError else."""

    def __init__(self, temperature: float) -> None:
        if not isinstance(temperature, float) or not temperature > 0:
            raise ValueError(f"`temperature` (={temperature}) has to be a strictly positive float")
        self.temperature = temperature

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return scores / self.temperature


class TopKLogitsWarper(LogitsProcessor):
    """The top_k best stay, and those that are as good as the last of them."""

    def __init__(self, top_k: int, filter_value: float = -math.inf, min_tokens_to_keep: int = 1) -> None:
        if not isinstance(top_k, int) or top_k <= 0:
            raise ValueError(f"`top_k` has to be a strictly positive integer, but is {top_k}")
        self.top_k = max(top_k, min_tokens_to_keep)
        self.filter_value = filter_value

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        k = min(self.top_k, scores.shape[-1])
        return fill(scores < greatest(scores, k), self.filter_value, scores)


class TopPLogitsWarper(LogitsProcessor):
    """The likeliest that together reach top_p stay."""

    def __init__(self, top_p: float, filter_value: float = -math.inf, min_tokens_to_keep: int = 1) -> None:
        top_p = float(top_p)
        if top_p < 0 or top_p > 1.0:
            raise ValueError(f"`top_p` has to be a float > 0 and < 1, but is {top_p}")
        self.top_p = top_p
        self.filter_value = filter_value
        self.min_tokens_to_keep = min_tokens_to_keep

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if is_torch(scores):
            values, order = scores.sort(descending=False)
            drop = values.softmax(dim=-1).cumsum(dim=-1) <= (1 - self.top_p)
            drop[..., -self.min_tokens_to_keep :] = False
            return scores.masked_fill(drop.scatter(1, order, drop), self.filter_value)
        import numpy

        order = numpy.argsort(scores, axis=-1, kind="stable")
        values = numpy.take_along_axis(scores, order, -1)
        drop = numpy.cumsum(softmax(values), axis=-1) <= (1 - self.top_p)
        drop[..., -self.min_tokens_to_keep :] = False
        mask = numpy.zeros_like(drop)
        numpy.put_along_axis(mask, order, drop, -1)
        return fill(mask, self.filter_value, scores)


class MinPLogitsWarper(LogitsProcessor):
    """Tokens of at least min_p times the likeliest one's probability stay."""

    def __init__(self, min_p: float, filter_value: float = -math.inf, min_tokens_to_keep: int = 1) -> None:
        if not 0 <= min_p <= 1.0:
            raise ValueError(f"`min_p` has to be a float in the [0, 1] interval, but is {min_p}")
        if not isinstance(min_tokens_to_keep, int) or min_tokens_to_keep < 1:
            raise ValueError(f"`min_tokens_to_keep` has to be a positive integer, but is {min_tokens_to_keep}")
        self.min_p = min_p
        self.min_tokens_to_keep = min_tokens_to_keep
        self.filter_value = filter_value

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        probs = softmax(scores)
        top = probs.amax(dim=-1, keepdim=True) if is_torch(probs) else probs.max(axis=-1, keepdims=True)
        few = scores < greatest(scores, min(self.min_tokens_to_keep, scores.shape[-1]))
        return fill((probs < self.min_p * top) & few, self.filter_value, scores)


class RepetitionPenaltyLogitsProcessor(LogitsProcessor):
    """Scores of tokens in the row are divided by the penalty, or multiplied below zero; the first prompt_ignore_length do not count."""

    def __init__(self, penalty: float, prompt_ignore_length: Optional[int] = None) -> None:
        if not isinstance(penalty, float) or not penalty > 0:
            raise ValueError(f"`penalty` has to be a strictly positive float, but is {penalty}")
        if prompt_ignore_length is not None and (not isinstance(prompt_ignore_length, int) or prompt_ignore_length < 0):
            raise ValueError(f"`prompt_ignore_length` has to be a positive integer, but is {prompt_ignore_length}")
        self.penalty = penalty
        self.prompt_ignore_length = prompt_ignore_length

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        scores = copy_of(scores)
        input_ids = input_ids[:, self.prompt_ignore_length or 0 :]
        for row in range(len(scores)):
            seen = input_ids[row]
            old = scores[row, seen]
            scores[row, seen] = module_of(scores).where(old < 0, old * self.penalty, old / self.penalty)
        return scores


class _Minimum(LogitsProcessor):
    def __init__(self, length: int, eos_token_id: Any) -> None:
        self.length = length
        given = plain(eos_token_id)
        self._ends = given if isinstance(given, list) else [given]
        self.eos_token_id = ids_array(self._ends)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if input_ids.shape[-1] >= self.length:
            return scores
        scores = copy_of(scores)
        scores[:, self._ends] = -math.inf
        return scores


class MinLengthLogitsProcessor(_Minimum):
    """No end before min_length tokens, prompt included."""

    def __init__(self, min_length: int, eos_token_id: Any, device: Any = None) -> None:
        if not isinstance(min_length, int) or min_length < 0:
            raise ValueError(f"`min_length` has to be a non-negative integer, but is {min_length}")
        super().__init__(min_length, eos_token_id)
        self.min_length = min_length


class MinNewTokensLengthLogitsProcessor(_Minimum):
    """No end before min_new_tokens new tokens."""

    def __init__(self, prompt_length_to_skip: int, min_new_tokens: int, eos_token_id: Any, device: Any = None) -> None:
        for name, value in (("prompt_length_to_skip", prompt_length_to_skip), ("min_new_tokens", min_new_tokens)):
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"`{name}` has to be a non-negative integer, but is {value}")
        super().__init__(prompt_length_to_skip + min_new_tokens, eos_token_id)


class SuppressTokensLogitsProcessor(LogitsProcessor):
    """These tokens are never chosen."""

    def __init__(self, suppress_tokens: Any, device: Any = None) -> None:
        self._tokens = [int(token) for token in suppress_tokens]
        self.suppress_tokens = ids_array(self._tokens)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        scores = copy_of(scores)
        scores[:, self._tokens] = -math.inf
        return scores


class NoRepeatNGramLogitsProcessor(LogitsProcessor):
    """No n tokens come twice in a row."""

    def __init__(self, ngram_size: int) -> None:
        if not isinstance(ngram_size, int) or ngram_size <= 0:
            raise ValueError(f"`ngram_size` has to be a strictly positive integer, but is {ngram_size}")
        self.ngram_size = ngram_size

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        scores, n = copy_of(scores), self.ngram_size
        for row in range(len(scores)):
            ids = input_ids[row].tolist()
            if len(ids) + 1 < n:
                continue
            tail = ids[len(ids) - n + 1 :]
            banned = [ids[i + n - 1] for i in range(len(ids) - n + 1) if ids[i : i + n - 1] == tail]
            scores[row, banned] = -math.inf
        return scores


class InfNanRemoveLogitsProcessor(LogitsProcessor):
    """nan becomes 0, infinities the largest floats."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        most = 3.4028234663852886e38
        if is_torch(scores):
            return scores.nan_to_num(nan=0.0, posinf=most, neginf=-most)
        import numpy

        return numpy.nan_to_num(scores, nan=0.0, posinf=most, neginf=-most)


class LogitNormalization(LogitsProcessor):
    """Log-softmax."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return log_softmax(scores)


def _penalties(c: GenerationConfig, prompt_ids: Any) -> list[Any]:
    made: list[Any] = []
    if c.sequence_bias is not None:
        made.append(SequenceBiasLogitsProcessor(c.sequence_bias))
    if c.encoder_repetition_penalty not in (None, 1.0):
        made.append(EncoderRepetitionPenaltyLogitsProcessor(float(c.encoder_repetition_penalty), prompt_ids))
    if c.repetition_penalty not in (None, 1.0):
        made.append(RepetitionPenaltyLogitsProcessor(float(c.repetition_penalty)))
    if c.no_repeat_ngram_size:
        made.append(NoRepeatNGramLogitsProcessor(c.no_repeat_ngram_size))
    if c.encoder_no_repeat_ngram_size:
        made.append(EncoderNoRepeatNGramLogitsProcessor(c.encoder_no_repeat_ngram_size, prompt_ids))
    if c.bad_words_ids is not None:
        made.append(NoBadWordsLogitsProcessor(c.bad_words_ids, c.eos_token_id))
    return made


def _lengths(c: GenerationConfig, prompt: int) -> list[Any]:
    made: list[Any] = []
    if c.min_length and c.eos_token_id is not None and c.min_length > 0:
        made.append(MinLengthLogitsProcessor(c.min_length, c.eos_token_id))
    if c.min_new_tokens and c.eos_token_id is not None:
        made.append(MinNewTokensLengthLogitsProcessor(prompt, c.min_new_tokens, c.eos_token_id))
    return made


def _forced(c: GenerationConfig, prompt: int) -> list[Any]:
    made: list[Any] = []
    if c.forced_bos_token_id is not None:
        made.append(ForcedBOSTokenLogitsProcessor(c.forced_bos_token_id))
    if c.forced_eos_token_id is not None:
        made.append(ForcedEOSTokenLogitsProcessor(c.max_length, c.forced_eos_token_id))
    if c.remove_invalid_values:
        made.append(InfNanRemoveLogitsProcessor())
    if c.exponential_decay_length_penalty is not None:
        made.append(ExponentialDecayLengthPenalty(c.exponential_decay_length_penalty, c.eos_token_id, prompt))
    if c.suppress_tokens is not None:
        made.append(SuppressTokensLogitsProcessor(c.suppress_tokens))
    if c.begin_suppress_tokens is not None:
        later = prompt == 1 and c.forced_bos_token_id is not None
        made.append(SuppressTokensAtBeginLogitsProcessor(c.begin_suppress_tokens, prompt + int(later)))
    return made


def _cuts(c: GenerationConfig) -> list[Any]:
    made: list[Any] = []
    ends = c.eos_token_id if isinstance(c.eos_token_id, list) else [c.eos_token_id]
    keep = len(ends) + 1 if (c.num_beams or 1) > 1 else 1
    if c.temperature not in (None, 1.0):
        made.append(TemperatureLogitsWarper(float(c.temperature)))
    if c.top_h is not None:
        made.append(TopHLogitsWarper(c.top_h))
    if c.top_k:
        made.append(TopKLogitsWarper(c.top_k, min_tokens_to_keep=keep))
    if c.top_p is not None and c.top_p < 1.0:
        made.append(TopPLogitsWarper(c.top_p, min_tokens_to_keep=keep))
    if c.min_p is not None:
        made.append(MinPLogitsWarper(c.min_p, min_tokens_to_keep=keep))
    if c.typical_p is not None and c.typical_p < 1.0:
        made.append(TypicalLogitsWarper(c.typical_p, min_tokens_to_keep=keep))
    if c.epsilon_cutoff:
        made.append(EpsilonLogitsWarper(c.epsilon_cutoff, min_tokens_to_keep=keep))
    if c.eta_cutoff:
        made.append(EtaLogitsWarper(c.eta_cutoff, min_tokens_to_keep=keep))
    return made


def processors_of(
    config: GenerationConfig, prompt_ids: Any, custom: Sequence[Any], prefix: Optional[Any] = None
) -> LogitsProcessorList:
    """The processors of a config, in transformers' order, with custom ones and prefix_allowed_tokens_fn at their places. prompt_ids:
    (rows, length). Guidance and watermarks are the library's alone: UnsupportedError."""
    for name in ("guidance_scale", "watermarking_config"):
        if getattr(config, name) not in (None, 1, 1.0):
            raise UnsupportedError(f"{name}: a custom_generate function gets no processor for it; generate() itself has it")
    prompt = prompt_ids.shape[-1]
    allowed = [] if prefix is None else [prefix]
    made = [*_penalties(config, prompt_ids), *_lengths(config, prompt), *allowed, *_forced(config, prompt), *custom]
    if config.do_sample:
        made += _cuts(config)
    if config.renormalize_logits:
        made.append(LogitNormalization())
    return LogitsProcessorList(made)


def criteria_of(config: GenerationConfig, custom: Sequence[Any], tokenizer: Any = None) -> StoppingCriteriaList:
    """The stopping criteria of a config, then custom ones."""
    made: list[Any] = []
    if config.max_length is not None:
        made.append(MaxLengthCriteria(config.max_length))
    if config.max_time is not None:
        made.append(MaxTimeCriteria(config.max_time))
    if config.stop_strings is not None:
        made.append(StopStringCriteria(tokenizer, config.stop_strings))
    if config.eos_token_id is not None:
        made.append(EosTokenCriteria(config.eos_token_id))
    return StoppingCriteriaList([*made, *custom])
