"""What generate() returns with ``return_dict_in_generate=True``: transformers' classes, field by field.

A ModelOutput is a dict of the fields that are not None, in order, with an attribute for each field; indices and slices go over
those present.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, fields
from typing import Any, NoReturn, Optional

from .errors import UnsupportedError

__all__ = [
    "ModelOutput",
    "GenerateDecoderOnlyOutput",
    "GenerateBeamDecoderOnlyOutput",
    "GenerateEncoderDecoderOutput",
    "GenerateBeamEncoderDecoderOutput",
    "CausalLMOutputWithPast",
]


class ModelOutput(OrderedDict[str, Any]):
    """A dict of the fields that are not None, which are attributes too."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None:
                super().__setitem__(field.name, value)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return super().__getitem__(key)
        return self.to_tuple()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def _fixed(self, *args: Any, **kwargs: Any) -> NoReturn:
        """UnsupportedError: its fields are what they are; set one, or make a dict of it."""
        raise UnsupportedError(f"{type(self).__name__}: fields cannot be taken out; dict(output) makes a dict that can be changed")

    __delitem__ = setdefault = pop = update = _fixed

    def to_tuple(self) -> tuple[Any, ...]:
        """The fields that are not None."""
        return tuple(self[key] for key in self.keys())

    def __reduce__(self) -> Any:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from .notebook import mimebundle

        return mimebundle(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self._repr_mimebundle_()["text/plain"])


@dataclass
class GenerateDecoderOnlyOutput(ModelOutput):
    """Greedy search and sampling. R = prompts * num_return_sequences.

    sequences: (R, length) int64, prompts included. scores, logits: a step each, (R, vocabulary) float32, after and before the
    processors. attentions: steps of layers of (R, heads, queries, keys). hidden_states: steps of layers + 1 of (R, queries,
    width). past_key_values: the KV cache, which lives as long as this object does.
    """

    sequences: Any
    scores: Optional[tuple[Any, ...]] = None
    logits: Optional[tuple[Any, ...]] = None
    attentions: Optional[tuple[Any, ...]] = None
    hidden_states: Optional[tuple[Any, ...]] = None
    past_key_values: Any = None


@dataclass
class GenerateBeamDecoderOnlyOutput(ModelOutput):
    """Beam search. scores and logits have prompts * num_beams rows; beam_indices (R, new tokens) says which of them a token of
    a sequence came from, -1 behind its end."""

    sequences: Any
    sequences_scores: Any = None
    scores: Optional[tuple[Any, ...]] = None
    logits: Optional[tuple[Any, ...]] = None
    beam_indices: Any = None
    attentions: Optional[tuple[Any, ...]] = None
    hidden_states: Optional[tuple[Any, ...]] = None
    past_key_values: Any = None


@dataclass
class GenerateEncoderDecoderOutput(ModelOutput):
    """Greedy search and sampling of a model with an encoder; sequences begin with the decoder's start token."""

    sequences: Any
    scores: Optional[tuple[Any, ...]] = None
    logits: Optional[tuple[Any, ...]] = None
    encoder_attentions: Optional[tuple[Any, ...]] = None
    encoder_hidden_states: Optional[tuple[Any, ...]] = None
    decoder_attentions: Optional[tuple[Any, ...]] = None
    cross_attentions: Optional[tuple[Any, ...]] = None
    decoder_hidden_states: Optional[tuple[Any, ...]] = None
    past_key_values: Any = None


@dataclass
class GenerateBeamEncoderDecoderOutput(ModelOutput):
    """Beam search of a model with an encoder."""

    sequences: Any
    sequences_scores: Any = None
    scores: Optional[tuple[Any, ...]] = None
    logits: Optional[tuple[Any, ...]] = None
    beam_indices: Any = None
    encoder_attentions: Optional[tuple[Any, ...]] = None
    encoder_hidden_states: Optional[tuple[Any, ...]] = None
    decoder_attentions: Optional[tuple[Any, ...]] = None
    cross_attentions: Optional[tuple[Any, ...]] = None
    decoder_hidden_states: Optional[tuple[Any, ...]] = None
    past_key_values: Any = None


@dataclass
class CausalLMOutputWithPast(ModelOutput):
    """Of a forward pass: logits (rows, positions, vocabulary) float32, and the cache that holds those positions."""

    logits: Any = None
    past_key_values: Any = None
