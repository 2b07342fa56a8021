"""transformers' processors that cut a distribution by its entropy or its probabilities, over torch tensors and NumPy arrays."""

from __future__ import annotations

import math
from typing import Any

from .arrays import is_torch, module_of
from .processors import LogitsProcessor

__all__ = ["TopHLogitsWarper", "TypicalLogitsWarper", "EpsilonLogitsWarper", "EtaLogitsWarper"]


def softmax(scores: Any) -> Any:
    if is_torch(scores):
        return scores.softmax(dim=-1)
    made = module_of(scores).exp(scores - scores.max(axis=-1, keepdims=True))
    return made / made.sum(axis=-1, keepdims=True)


def log_softmax(scores: Any) -> Any:
    if is_torch(scores):
        return scores.log_softmax(dim=-1)
    numpy = module_of(scores)
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=-1, keepdims=True))


def ascending(scores: Any) -> tuple[Any, Any]:
    """(sorted, order), ties in torch's order where it is torch."""
    if is_torch(scores):
        values, order = scores.sort(descending=False)
        return values, order
    order = scores.argsort(axis=-1, kind="stable")
    return module_of(scores).take_along_axis(scores, order, -1), order


def taken(scores: Any, order: Any) -> Any:
    """scores[row][order[row]]"""
    return scores.gather(-1, order) if is_torch(scores) else module_of(scores).take_along_axis(scores, order, -1)


def spread(sorted_mask: Any, order: Any, like: Any) -> Any:
    """A mask over the vocabulary, False where `order` does not reach; sorted_mask says it of order's places."""
    if is_torch(like):
        return module_of(like).zeros_like(like, dtype=module_of(like).bool).scatter(1, order, sorted_mask)
    numpy = module_of(like)
    mask = numpy.zeros(like.shape, dtype=bool)
    numpy.put_along_axis(mask, order, sorted_mask, -1)
    return mask


def fill(mask: Any, value: float, scores: Any) -> Any:
    """The scores with `value` where the mask is True, as a new array."""
    if is_torch(scores):
        return scores.masked_fill(mask, value)
    numpy = module_of(scores)
    return numpy.where(mask, scores.dtype.type(value), scores)


def greatest(scores: Any, k: int) -> Any:
    """(rows, 1): the k-th greatest."""
    if is_torch(scores):
        return scores.topk(k).values[..., -1, None]
    return module_of(scores).partition(scores, -k, axis=-1)[..., -k, None]


def _at_least(value: Any) -> int:
    if int(value) < 1:
        raise ValueError(f"`min_tokens_to_keep` has to be a strictly positive integer, but is {value}")
    return int(value)


class TopHLogitsWarper(LogitsProcessor):
    """Of the 100 likeliest, those stay whose entropies add up to at most top_h of the whole; the first always."""

    def __init__(self, top_h: float, filter_value: float = -math.inf) -> None:
        if not 0 < top_h <= 1:
            raise ValueError("`top_h` must be in the range (0, 1].")
        self.top_h = top_h
        self.top_n = 100
        self.filter_value = filter_value

    def _best(self, scores: Any) -> tuple[Any, Any]:
        n = min(self.top_n, scores.shape[-1])
        if is_torch(scores):
            values, order = scores.topk(n, dim=-1, largest=True, sorted=True)
            return values - values.logsumexp(dim=-1, keepdim=True), order
        order = (-scores).argsort(axis=-1, kind="stable")[..., :n]
        return log_softmax(taken(scores, order)), order

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        logits, order = self._best(scores)
        xp = module_of(scores)
        p = softmax(logits)
        whole = -(xp.clip(logits, -3.4028234663852886e38, None) * p).sum(axis=-1, keepdims=True)
        with _quiet(scores):
            entropies = (-p * xp.log(p)).cumsum(axis=-1)
        keep = entropies <= whole * self.top_h
        keep[:, 0] = True
        return fill(~spread(keep, order, scores), self.filter_value, scores)


class TypicalLogitsWarper(LogitsProcessor):
    """Those whose information is nearest to the entropy stay, up to a mass."""

    def __init__(self, mass: float = 0.9, filter_value: float = -math.inf, min_tokens_to_keep: int = 1) -> None:
        self.mass = float(mass)
        if not 0 < self.mass < 1:
            raise ValueError(f"`typical_p` has to be a float > 0 and < 1, but is {mass}")
        if not isinstance(min_tokens_to_keep, int):
            raise ValueError(f"`min_tokens_to_keep` has to be a positive integer, but is {min_tokens_to_keep}")
        self.filter_value = filter_value
        self.min_tokens_to_keep = _at_least(min_tokens_to_keep)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        xp = module_of(scores)
        logp = log_softmax(scores)
        with _quiet(scores):
            entropy = -xp.nansum(logp * xp.exp(logp), -1, keepdims=True)
            far, order = ascending(abs(-logp - entropy))
        mass = softmax(taken(scores, order)).cumsum(axis=-1)
        last = xp.clip((mass < self.mass).sum(axis=-1), None, scores.shape[-1] - 1)
        drop = far > taken(far, last[:, None])
        drop[..., : self.min_tokens_to_keep] = False
        return fill(spread(drop, order, scores), self.filter_value, scores)


class EpsilonLogitsWarper(LogitsProcessor):
    """Tokens of at least this probability stay, and the min_tokens_to_keep best."""

    _name = "epsilon_cutoff"

    def __init__(self, epsilon: float, filter_value: float = -math.inf, min_tokens_to_keep: int = 1, device: Any = None) -> None:
        self.epsilon = float(epsilon)
        if not 0 < self.epsilon < 1:
            raise ValueError(f"`{self._name}` has to be a float > 0 and < 1, but is {epsilon}")
        self.filter_value = filter_value
        self.min_tokens_to_keep = _at_least(min_tokens_to_keep)

    def _least(self, scores: Any) -> Any:
        return self.epsilon

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        drop = softmax(scores) < self._least(scores)
        drop = drop & (scores < greatest(scores, min(self.min_tokens_to_keep, scores.shape[-1])))
        return fill(drop, self.filter_value, scores)


class EtaLogitsWarper(EpsilonLogitsWarper):
    """The same; the least probability is lower where the distribution is flat."""

    _name = "eta_cutoff"

    def _least(self, scores: Any) -> Any:
        xp = module_of(scores)
        logp = xp.clip(log_softmax(scores), -3.4028234663852886e38, None)
        entropy = -(logp * softmax(scores)).sum(axis=-1, keepdims=True)
        return xp.clip(math.sqrt(self.epsilon) * xp.exp(-entropy), None, self.epsilon)


class _quiet:
    """No NumPy warnings of infinities, which are ordinary scores."""

    def __init__(self, scores: Any) -> None:
        self.state: Any = None
        self.numpy = None if is_torch(scores) else module_of(scores)

    def __enter__(self) -> None:
        if self.numpy is not None:
            self.state = self.numpy.errstate(all="ignore")
            self.state.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.state is not None:
            self.state.__exit__(*error)
