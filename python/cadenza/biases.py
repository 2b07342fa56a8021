"""transformers' processors that move or forbid single tokens, and two criteria, over torch tensors and NumPy arrays."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Union

from .arrays import copy_of, ids_array, is_torch, module_of, plain
from .cuts import log_softmax, softmax
from .processors import LogitsProcessor, StoppingCriteria

__all__ = [
    "SequenceBiasLogitsProcessor",
    "NoBadWordsLogitsProcessor",
    "EncoderRepetitionPenaltyLogitsProcessor",
    "EncoderNoRepeatNGramLogitsProcessor",
    "PrefixConstrainedLogitsProcessor",
    "ForcedBOSTokenLogitsProcessor",
    "ForcedEOSTokenLogitsProcessor",
    "ExponentialDecayLengthPenalty",
    "SuppressTokensAtBeginLogitsProcessor",
    "ClassifierFreeGuidanceLogitsProcessor",
    "UnbatchedClassifierFreeGuidanceLogitsProcessor",
    "AlternatingCodebooksLogitsProcessor",
    "StopStringCriteria",
    "ConfidenceCriteria",
]


def _ids(tokens: Any, name: str = "eos_token_id") -> list[int]:
    """Ids of an int, a list, an array or a tensor: ValueError for anything else."""
    made = plain(tokens)
    made = made if isinstance(made, list) else [made]
    if any(isinstance(token, bool) or not isinstance(token, int) or token < 0 for token in made):
        raise ValueError(f"`{name}` has to be a list of positive integers, but is {tokens}")
    return made


def _only(scores: Any, tokens: list[int]) -> Any:
    """Nothing but these tokens."""
    made = module_of(scores).full_like(scores, -math.inf)
    made[:, tokens] = 0
    return made


class SequenceBiasLogitsProcessor(LogitsProcessor):
    """Adds a bias to the last token of a sequence where the row ends in the tokens before it: {(ids): bias}, or
    [[[ids], bias], ...]."""

    def __init__(self, sequence_bias: Any) -> None:
        self.sequence_bias: dict[tuple[int, ...], float] = self._checked(sequence_bias)

    @staticmethod
    def _checked(given: Any) -> dict[tuple[int, ...], float]:
        if not isinstance(given, (dict, list)) or not given:
            raise ValueError(f"`sequence_bias` has to be a non-empty dictionary, or non-empty list of lists but is {given}.")
        if isinstance(given, dict) and any(not isinstance(ids, tuple) for ids in given):
            raise ValueError(f"`sequence_bias` has to be a dict with tuples as keys, but is {given}.")
        pairs = given.items() if isinstance(given, dict) else given
        made = {}
        for pair in pairs:
            ids, bias = pair if len(pair) == 2 else (None, None)
            if not isinstance(ids, (tuple, list)) or not ids or not isinstance(bias, float):
                raise ValueError(f"`sequence_bias`: expected ids and a float, found {pair}")
            made[tuple(_ids(list(ids), "sequence_bias"))] = bias
        return made

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        beyond = [token for ids in self.sequence_bias for token in ids if token >= scores.shape[-1]]
        if beyond:
            raise ValueError(f"The vocabulary has {scores.shape[-1]} tokens, but these are biased: {beyond}")
        bias = module_of(scores).zeros_like(scores)
        rows = input_ids.tolist()
        for ids, value in self.sequence_bias.items():
            if len(ids) == 1:
                bias[:, ids[0]] = value
        for ids, value in self.sequence_bias.items():
            for row, tokens in enumerate(rows if 1 < len(ids) else ()):
                if len(ids) <= len(tokens) and tuple(tokens[1 - len(ids) :]) == ids[:-1]:
                    bias[row, ids[-1]] += value
        return scores + bias


class NoBadWordsLogitsProcessor(SequenceBiasLogitsProcessor):
    """Sequences that are never completed; those that are an end-of-sequence token alone do not count."""

    def __init__(self, bad_words_ids: list[list[int]], eos_token_id: Any = None) -> None:
        if not isinstance(bad_words_ids, list) or not bad_words_ids:
            raise ValueError(f"`bad_words_ids` has to be a non-empty list, but is {bad_words_ids}.")
        if any(not isinstance(ids, list) for ids in bad_words_ids):
            raise ValueError(f"`bad_words_ids` has to be a list of lists, but is {bad_words_ids}.")
        for ids in bad_words_ids:
            _ids(ids, "bad_words_ids")
        ends = [] if eos_token_id is None else _ids(eos_token_id)
        self.bad_word_ids = bad_words_ids
        counting = {tuple(ids): -math.inf for ids in bad_words_ids if not (len(ids) == 1 and ids[0] in ends)}
        if counting:
            super().__init__(counting)
        else:
            self.sequence_bias = {}


class EncoderRepetitionPenaltyLogitsProcessor(LogitsProcessor):
    """Raises the scores of the prompt's tokens: divided by 1 / penalty, multiplied below zero. encoder_input_ids: (rows, length)"""

    def __init__(self, penalty: float, encoder_input_ids: Any) -> None:
        if not isinstance(penalty, float) or not penalty > 0:
            raise ValueError(f"`penalty` has to be a strictly positive float, but is {penalty}")
        self.penalty = 1 / penalty
        self.encoder_input_ids = encoder_input_ids

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        made = copy_of(scores)
        for row, ids in enumerate(self.encoder_input_ids[: len(scores)]):
            old = scores[row, ids]
            made[row, ids] = module_of(scores).where(old < 0, old * self.penalty, old / self.penalty)
        return made


class EncoderNoRepeatNGramLogitsProcessor(LogitsProcessor):
    """No n tokens of the prompt come again. encoder_input_ids: (rows, length), or one row."""

    def __init__(self, encoder_ngram_size: int, encoder_input_ids: Any) -> None:
        if not isinstance(encoder_ngram_size, int) or encoder_ngram_size <= 0:
            raise ValueError(f"`encoder_ngram_size` has to be a strictly positive integer, but is {encoder_ngram_size}")
        self.ngram_size = encoder_ngram_size
        rows = encoder_input_ids.tolist()
        self.prompts: list[list[int]] = rows if rows and isinstance(rows[0], list) else [rows]

    def _banned(self, prompt: list[int], row: list[int]) -> list[int]:
        n = self.ngram_size
        if len(row) + 1 < n:
            return []
        tail = row[len(row) - n + 1 :]
        return [prompt[i + n - 1] for i in range(len(prompt) - n + 1) if prompt[i : i + n - 1] == tail]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        made, each = copy_of(scores), len(scores) // len(self.prompts)
        for row, ids in enumerate(input_ids.tolist()):
            banned = self._banned(self.prompts[row // each], ids)
            if banned:
                made[row, banned] = -math.inf
        return made


class PrefixConstrainedLogitsProcessor(LogitsProcessor):
    """Only what function(prompt, ids) allows; ValueError where it allows nothing."""

    def __init__(self, prefix_allowed_tokens_fn: Callable[[int, Any], Any], num_beams: int) -> None:
        self._prefix_allowed_tokens_fn = prefix_allowed_tokens_fn
        self._num_beams = num_beams

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        mask = module_of(scores).full_like(scores, -math.inf)
        for row in range(len(input_ids)):
            prompt = row // self._num_beams
            allowed = plain(self._prefix_allowed_tokens_fn(prompt, input_ids[row]))
            if not allowed:
                raise ValueError(f"`prefix_allowed_tokens_fn` allows no token for prompt {prompt}")
            mask[row, list(allowed)] = 0
        return scores + mask


class ForcedBOSTokenLogitsProcessor(LogitsProcessor):
    """The first token behind one of prompt is this one."""

    def __init__(self, bos_token_id: int) -> None:
        self.bos_token_id = bos_token_id

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return _only(scores, [self.bos_token_id]) if input_ids.shape[-1] == 1 else scores


class ForcedEOSTokenLogitsProcessor(LogitsProcessor):
    """The last token of max_length is one of these."""

    def __init__(self, max_length: int, eos_token_id: Any, device: Any = None) -> None:
        self.max_length = max_length
        self._ends = _ids(eos_token_id)
        self.eos_token_id = ids_array(self._ends)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return _only(scores, self._ends) if input_ids.shape[-1] == self.max_length - 1 else scores


class ExponentialDecayLengthPenalty(LogitsProcessor):
    """From (start, factor) on, ends become likelier with every token."""

    def __init__(self, exponential_decay_length_penalty: tuple[int, float], eos_token_id: Any, input_ids_seq_length: int) -> None:
        self.regulation_start = exponential_decay_length_penalty[0] + input_ids_seq_length
        self.regulation_factor = exponential_decay_length_penalty[1]
        self._ends = _ids(eos_token_id)
        self.eos_token_id = ids_array(self._ends)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        over = input_ids.shape[-1] - self.regulation_start
        if over <= 0:
            return scores
        made = copy_of(scores)
        ends = scores[:, self._ends]
        made[:, self._ends] = ends + abs(ends) * (self.regulation_factor**over - 1)
        return made


class SuppressTokensAtBeginLogitsProcessor(LogitsProcessor):
    """These are not the token at begin_index."""

    def __init__(self, begin_suppress_tokens: Any, begin_index: int, device: Any = None) -> None:
        self._tokens = [int(token) for token in begin_suppress_tokens]
        self.begin_suppress_tokens = ids_array(self._tokens)
        self.begin_index = begin_index

    def set_begin_index(self, begin_index: int) -> None:
        self.begin_index = begin_index

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if input_ids.shape[-1] != self.begin_index:
            return scores
        made = copy_of(scores)
        made[:, self._tokens] = -math.inf
        return made


class AlternatingCodebooksLogitsProcessor(LogitsProcessor):
    """Tokens of two codebooks in turn, the first behind semantic_vocab_size tokens, the second behind the first."""

    def __init__(self, input_start_len: int, semantic_vocab_size: int, codebook_size: int) -> None:
        if not isinstance(input_start_len, int) or input_start_len < 0:
            raise ValueError(f"`input_starting_length` has to be a non-negative integer, but is {input_start_len}")
        self.input_start_len = input_start_len
        self.semantic_vocab_size = semantic_vocab_size
        self.codebook_size = codebook_size

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        made, second = copy_of(scores), self.semantic_vocab_size + self.codebook_size
        if (input_ids.shape[-1] - self.input_start_len) % 2 == 0:
            made[:, : self.semantic_vocab_size] = -math.inf
            made[:, second:] = -math.inf
        else:
            made[:, :second] = -math.inf
        return made


class ClassifierFreeGuidanceLogitsProcessor(LogitsProcessor):
    """Scores of twice the rows of input_ids, those with the condition first, become one row each: without + scale * (with - without)."""

    def __init__(self, guidance_scale: float) -> None:
        if not guidance_scale > 1:
            raise ValueError(f"Require guidance scale >1 to use the classifier free guidance processor, got guidance scale {guidance_scale}.")
        self.guidance_scale = guidance_scale

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        rows = input_ids.shape[0]
        if scores.shape[0] != 2 * rows:
            raise ValueError(
                f"Logits should have twice the batch size of the input ids: found {scores.shape[0]} for the logits and {rows} for the input ids."
            )
        without = scores[rows:]
        return without + (scores[:rows] - without) * self.guidance_scale


class UnbatchedClassifierFreeGuidanceLogitsProcessor(LogitsProcessor):
    """Guidance by a model's own pass over unconditional_ids (or the prompt's last token) and what was generated since: one object
    a generation. For loops of one's own; in generate() it is guidance_scale and negative_prompt_ids."""

    def __init__(self, guidance_scale: float, model: Any, unconditional_ids: Any = None, unconditional_attention_mask: Any = None,
                 use_cache: Optional[bool] = True) -> None:  # fmt: skip
        self.guidance_scale = guidance_scale
        self.model = model
        self.unconditional_ids = unconditional_ids
        self.unconditional_attention_mask = unconditional_attention_mask
        self.use_cache = use_cache
        self._past: Any = None
        self._begun = False

    def _logits(self, input_ids: Any) -> Any:
        """Of the unconditional sequence, that the newest tokens go onto."""
        xp, newest = module_of(input_ids), input_ids[:, -1:]
        ids = newest if self.unconditional_ids is None else self.unconditional_ids
        mask = xp.ones_like(ids) if self.unconditional_attention_mask is None else self.unconditional_attention_mask
        if self._begun:
            ids = xp.concatenate([ids, newest], 1)
            mask = xp.concatenate([mask, xp.ones_like(newest)], 1)
        self._begun = True
        self.unconditional_ids, self.unconditional_attention_mask = ids, mask
        read = newest if self._past is not None else ids
        out = self.model(read, attention_mask=mask, use_cache=self.use_cache, past_key_values=self._past)
        self._past = out.get("past_key_values") if self.use_cache else None
        return out.logits[:, -1]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        scores = log_softmax(scores)
        if self.guidance_scale == 1:
            return scores
        without = log_softmax(self._logits(input_ids))
        return self.guidance_scale * (scores - without) + without


# -- criteria ----------------------------------------------------------------------------------------------------


class StopStringCriteria(StoppingCriteria):
    """Rows whose newest token completes one of the strings, or holds its end, are done."""

    def __init__(self, tokenizer: Any, stop_strings: Union[str, list[str]]) -> None:
        self.tokenizer = tokenizer
        self.stop_strings = (stop_strings,) if isinstance(stop_strings, str) else tuple(stop_strings)
        self._longest = max((len(stop.encode()) for stop in self.stop_strings), default=0)

    def _done(self, ids: list[int]) -> bool:
        ids = ids[-self._longest - 1 :]
        text, before = self.tokenizer.decode(ids), self.tokenizer.decode(ids[:-1])
        return any(stop in text[max(0, len(before) - len(stop) + 1) :] for stop in self.stop_strings)

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        done = [self._done(row) for row in input_ids.tolist()]
        xp = module_of(input_ids)
        return xp.asarray(done, dtype=xp.bool if is_torch(input_ids) else bool)


class ConfidenceCriteria(StoppingCriteria):
    """A draft ends where its last token's probability is below the threshold. One row; scores: a step each."""

    def __init__(self, assistant_confidence_threshold: float) -> None:
        self.assistant_confidence_threshold = assistant_confidence_threshold

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> bool:
        return bool(softmax(scores[-1])[0, input_ids[0, -1]] < self.assistant_confidence_threshold)
