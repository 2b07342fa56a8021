"""pipeline("text-generation"): texts or chats in, texts or chats out."""

from __future__ import annotations

import types
import warnings
from typing import Any, Iterator, Optional

from .errors import UsageError
from .model import Model
from .tokenizer import Tokenizer

__all__ = ["pipeline", "TextGenerationPipeline"]


def pipeline(task: Optional[str] = None, model: Any = None, tokenizer: Any = None, device: Any = None, **defaults: Any) -> "TextGenerationPipeline":
    """A text-generation pipeline. model: an open one, or what from_pretrained takes. KeyError: another task."""
    if task not in (None, "text-generation"):
        raise KeyError(f"Unknown task {task}: there is text-generation")
    if model is None:
        raise UsageError("pipeline: which model?")
    if not isinstance(model, Model):
        where: dict[str, Any] = {} if device in (None, -1, "cpu") else {"device": str(device)}
        model = Model.from_pretrained(model, **where, **defaults.pop("model_kwargs", {}))
    for name in ("dtype", "torch_dtype", "device_map", "framework", "revision", "trust_remote_code"):
        defaults.pop(name, None)
    if tokenizer is None:
        tokenizer = Tokenizer(model)
    elif isinstance(tokenizer, str):
        tokenizer = Tokenizer.from_pretrained(tokenizer)
    return TextGenerationPipeline(model, tokenizer, **defaults)


class TextGenerationPipeline:
    """``pipe(texts_or_chats, return_full_text=True, max_new_tokens=256, ...)``.

    A text gives [{"generated_text": text}], a list of them a list of those; a chat's generated_text is the list of messages with
    the answer. A generator gives an iterator. Without another word of the model's config: do_sample True, temperature 0.7.
    """

    def __init__(self, model: Model, tokenizer: Any, **defaults: Any) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.task = "text-generation"
        self.device = getattr(model, "device", "cpu")
        self.defaults = defaults

    def __call__(self, inputs: Any = None, text_inputs: Any = None, **kwargs: Any) -> Any:
        inputs = text_inputs if inputs is None else inputs
        options = {**self.defaults, **kwargs}
        if isinstance(inputs, types.GeneratorType):
            return self._each(inputs, options)
        if isinstance(inputs, str) or _is_chat(inputs):
            return self._run([inputs], options)[0]
        return self._run(list(inputs), options)

    def _each(self, inputs: Any, options: dict[str, Any]) -> Iterator[Any]:
        for one in inputs:
            yield self._run([one], options)[0]

    def _run(self, inputs: list[Any], options: dict[str, Any]) -> list[Any]:
        options = dict(options)
        full, as_ids = _form(options)
        batch = options.pop("batch_size", None) or 1
        encode = {name: options.pop(name, None) for name in ("add_special_tokens", "padding", "truncation", "tools", "documents")}
        encode["max_length"] = options.get("max_length")
        encode = {name: value for name, value in encode.items() if value is not None}
        encode.update(options.pop("tokenizer_encode_kwargs", None) or {})
        clean, skips = options.pop("clean_up_tokenization_spaces", None), options.pop("skip_special_tokens", None)
        decode = {"clean_up_tokenization_spaces": clean is None or clean, "skip_special_tokens": skips is None or skips}
        continues = options.pop("continue_final_message", None)
        prefix = options.pop("prefix", "") or ""
        long_text = options.pop("handle_long_generation", None)
        if long_text not in (None, "hole"):
            raise UsageError(f'handle_long_generation: expected "hole" or None, found {long_text!r}')
        stop = options.pop("stop_sequence", None)
        if stop is not None:
            ids = self.tokenizer.encode(stop, add_special_tokens=False)
            if len(ids) > 1:
                warnings.warn("a stop_sequence of several tokens: its first token ends the answer", UserWarning, stacklevel=3)
            options["eos_token_id"] = ids[0]
        self._fill(options)
        made: list[Any] = []
        for first in range(0, len(inputs), batch):
            some = inputs[first : first + batch]
            made.extend(self._batch(some, options, full, as_ids, encode, continues, prefix, long_text, decode))
        return made

    def _fill(self, options: dict[str, Any]) -> None:
        own = self.model.generation_config
        given = options.get("generation_config")
        for name, value in (("do_sample", True), ("temperature", 0.7)):
            if getattr(own, name) is None and getattr(given, name, None) is None and name not in options:
                if name == "do_sample" or options.get("do_sample", own.do_sample) is not False:
                    options[name] = value
        lengths = ("max_new_tokens", "max_length")
        if all(getattr(c, n, None) is None for n in lengths for c in (own, given)) and not any(n in options for n in lengths):
            options["max_new_tokens"] = 256

    def _batch(self, some: list[Any], options: dict[str, Any], full: bool, as_ids: bool, encode: dict[str, Any],
               continues: Optional[bool], prefix: str, long_text: Optional[str], decode: dict[str, Any]) -> list[Any]:  # fmt: skip
        rows = [self._ids(one, encode, continues, prefix) for one in some]
        if long_text == "hole":
            room = self.tokenizer.model_max_length - (options.get("max_new_tokens") or 256)
            if room <= 0:
                raise UsageError('handle_long_generation: "hole" leaves nothing of a prompt: max_new_tokens is more than the model holds')
            rows = [row[-room:] for row in rows]
        width = max(len(row) for row in rows)
        pad = self.tokenizer.pad_token_id
        if pad is None:
            pad = self.tokenizer.eos_token_id or 0
        left = not self.model._has_encoder
        padded = [[pad] * (width - len(r)) + r if left else r + [pad] * (width - len(r)) for r in rows]
        mask = [[0] * (width - len(r)) + [1] * len(r) if left else [1] * len(r) + [0] * (width - len(r)) for r in rows]
        answers = self.model.generate(padded, attention_mask=mask, **options)
        answers = answers["sequences"] if isinstance(answers, dict) else answers
        each = len(answers) // len(some)
        return [
            [self._record(one, shown, answer, full, as_ids, continues, decode) for answer in answers[i * each : (i + 1) * each]]
            for i, (one, shown) in enumerate(zip(some, padded))
        ]

    def _ids(self, one: Any, encode: dict[str, Any], continues: Optional[bool], prefix: str) -> list[int]:
        if _is_chat(one):
            last = continues if continues is not None else one[-1].get("role") == "assistant"
            made = self.tokenizer.apply_chat_template(
                one, add_generation_prompt=not last, continue_final_message=bool(last), return_dict=True,
                **{name: value for name, value in encode.items() if name != "add_special_tokens"},
            )  # fmt: skip
            return list(made["input_ids"])
        return list(self.tokenizer(prefix + one, **{name: value for name, value in encode.items() if name not in ("tools", "documents")})["input_ids"])

    def _record(self, one: Any, shown: list[int], answer: list[int], full: bool, as_ids: bool, continues: Any, decode: dict[str, Any]
                ) -> dict[str, Any]:  # fmt: skip
        """shown: the prompt's ids, pads among them: its text is cut off from the whole, where it was cleaned as part of that."""
        if as_ids:
            return {"generated_token_ids": list(answer)}
        begin = 0 if self.model._has_encoder else len(self.tokenizer.decode(shown, **decode))
        new = self.tokenizer.decode(list(answer), **decode)[begin:]
        if not full:
            return {"generated_text": new}
        if not _is_chat(one):
            return {"generated_text": new if self.model._has_encoder else one + new}
        if continues or (continues is None and one[-1].get("role") == "assistant"):
            return {"generated_text": [*one[:-1], {**one[-1], "content": one[-1]["content"] + new}]}
        return {"generated_text": [*one, {"role": "assistant", "content": new}]}


def _form(options: dict[str, Any]) -> tuple[bool, bool]:
    """(the prompt too, ids in place of texts)"""
    full, ids, text = (options.pop(name, None) for name in ("return_full_text", "return_tensors", "return_text"))
    given = [name for name, value in (("return_full_text", full), ("return_tensors", ids), ("return_text", text)) if value is not None]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]}: give one of them")
    return full is None or bool(full), ids is not None


def _is_chat(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], dict)
