"""Tokenizers: the model's own, with transformers' surface. transformers' tokenizers work beside it, since only ids cross."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Iterator, Optional, Union

from . import _core, arrays
from ._abi import ffi
from .errors import CadenzaError, StateError, UsageError

if TYPE_CHECKING:
    import os

    from .model import Model

__all__ = ["AutoTokenizer", "Tokenizer", "BatchEncoding"]


class BatchEncoding(dict):  # type: ignore[type-arg]
    """input_ids and attention_mask, as keys and as attributes; ``generate(**encoding)``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def to(self, device: Any) -> "BatchEncoding":
        """The same, tensors moved."""
        return BatchEncoding({k: v.to(device) if arrays.is_torch(v) else v for k, v in self.items()})


class Tokenizer:
    """A model's tokenizer. ``tokenizer(text or texts, padding=, truncation=, max_length=, return_tensors=None, "np" or "pt")``.

    padding_side, truncation_side and pad_token can be set.
    """

    def __init__(self, model: "Model") -> None:
        model._alive()
        self._model = model
        info = _core.library().cdz_tokenizer_info_json(model._pointer)
        if not info:
            raise StateError(f"{model.name_or_path}: the model has no tokenizer")
        self._info: dict[str, Any] = json.loads(_core.take_text(info))
        self.padding_side = "right" if model._has_encoder else "left"
        self.truncation_side = "right"
        self.name_or_path = model.name_or_path
        self.chat_template = self._info.get("chat_template")
        self.model_max_length = int(_core.library().cdz_model_context(model._pointer)) or 10**30
        for name in ("bos", "eos", "pad", "unk"):
            setattr(self, f"_token_{name}", (self._info.get(f"{name}_token"), self._info.get(f"{name}_token_id")))
        self._affixes: Optional[tuple[list[int], list[int]]] = None

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Union[str, "os.PathLike[str]"], **kwargs: Any) -> "Tokenizer":
        """The tokenizer of a model's folder, file or id. OSError: there is none."""
        from .model import Model

        side = kwargs.pop("padding_side", None)
        model = Model.from_pretrained(
            pretrained_model_name_or_path,
            **{k: v for k, v in kwargs.items() if k in ("revision", "cache_dir", "threads", "device")},
        )
        made = cls(model)
        if side is not None:
            made.padding_side = side
        return made

    # -- texts to ids ----------------------------------------------------------------------------------------

    def _raw(self, text: str, special: bool) -> list[int]:
        self._model._alive()
        data = text.encode("utf-8", "surrogatepass")
        out, n, err = ffi.new("int32_t **"), ffi.new("size_t *"), _core.new_error()
        lib = _core.library()
        _core.check(lib.cdz_tokenize(self._model._pointer, data, len(data), special, out, n, err), err)
        try:
            return list(ffi.unpack(out[0], n[0])) if n[0] else []
        finally:
            lib.cdz_free(out[0])

    def _ends(self) -> tuple[list[int], list[int]]:
        """What the tokenizer puts before and behind a text."""
        if self._affixes is None:
            bare, whole = self._raw("a", False), self._raw("a", True)
            at = next((i for i in range(len(whole)) if whole[i : i + len(bare)] == bare), 0)
            self._affixes = (whole[:at], whole[at + len(bare) :])
        return self._affixes

    def encode(self, text: Any, add_special_tokens: bool = True, return_tensors: Optional[str] = None, **kwargs: Any) -> Any:
        """The ids of a text: a list, or (1, length) with return_tensors."""
        if not isinstance(text, str):
            raise UsageError(f"encode: expected a text, found {type(text).__name__}")
        if kwargs or return_tensors:
            return self([text] if return_tensors else text, add_special_tokens=add_special_tokens, return_tensors=return_tensors, **kwargs)["input_ids"]
        ids = self._raw(text, True)
        if not add_special_tokens:
            before, behind = self._ends()
            ids = ids[len(before) : len(ids) - len(behind)]
        return ids

    def tokenize(self, text: str) -> list[str]:
        return [self.token_text(i) for i in self.encode(text, add_special_tokens=False)]

    def __call__(
        self,
        text: Any,
        padding: Any = False,
        truncation: Any = False,
        max_length: Optional[int] = None,
        return_tensors: Optional[str] = None,
        add_special_tokens: bool = True,
        padding_side: Optional[str] = None,
        return_attention_mask: bool = True,
        return_token_type_ids: bool = False,
        **kwargs: Any,
    ) -> BatchEncoding:
        single = isinstance(text, str)
        rows = [self.encode(t, add_special_tokens=add_special_tokens) for t in ([text] if single else text)]
        if truncation and max_length is not None:
            rows = [row[:max_length] if self.truncation_side == "right" else row[-max_length:] for row in rows]
        return self._pad(rows, padding, max_length, return_tensors, single, padding_side, return_attention_mask)

    def _pad(self, rows: list[list[int]], padding: Any, max_length: Optional[int], tensors: Optional[str], single: bool,
             side: Optional[str], with_mask: bool) -> BatchEncoding:  # fmt: skip
        mask = [[1] * len(row) for row in rows]
        if padding and padding != "do_not_pad":
            if self.pad_token_id is None:
                raise UsageError("the tokenizer has no pad token: tokenizer.pad_token = tokenizer.eos_token")
            width = max_length if padding == "max_length" and max_length else max((len(row) for row in rows), default=0)
            left = (side or self.padding_side) == "left"
            for i, row in enumerate(rows):
                n = max(0, width - len(row))
                fill, zeros = [int(self.pad_token_id)] * n, [0] * n
                rows[i] = fill + row if left else row + fill
                mask[i] = zeros + mask[i] if left else mask[i] + zeros
        made: dict[str, Any] = {"input_ids": rows, "attention_mask": mask}
        if not with_mask:
            del made["attention_mask"]
        if tensors is None:
            return BatchEncoding({name: value[0] if single else value for name, value in made.items()})
        kind = {"pt": arrays.TORCH, "np": arrays.NUMPY}.get(tensors)
        if kind is None:
            raise UsageError(f'return_tensors: expected "pt", "np" or None, found {tensors!r}')
        if len({len(row) for row in rows}) > 1:
            raise ValueError("texts of different lengths make no tensor: padding=True makes them equal")
        return BatchEncoding({name: arrays.ids_like(value, kind) for name, value in made.items()})

    def pad(self, encoded: Any, padding: Any = True, max_length: Optional[int] = None, return_tensors: Optional[str] = None,
            **kwargs: Any) -> BatchEncoding:  # fmt: skip
        """Pads rows of ids: a mapping with input_ids, or a list of such."""
        rows = [dict(e)["input_ids"] for e in encoded] if isinstance(encoded, list) else encoded["input_ids"]
        return self._pad([list(row) for row in rows], padding, max_length, return_tensors, False, None, True)

    # -- ids to texts ----------------------------------------------------------------------------------------

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, clean_up_tokenization_spaces: Any = None, **kwargs: Any) -> Any:
        """The text of an id or of ids of any kind; of rows, a list of texts."""
        ids = token_ids.tolist() if hasattr(token_ids, "tolist") else token_ids
        ids = [ids] if isinstance(ids, int) else list(ids)
        if ids and isinstance(ids[0], (list, tuple)):
            return [self.decode(row, skip_special_tokens) for row in ids]
        if ids and hasattr(ids[0], "tolist"):
            ids = [i.tolist() if hasattr(i, "tolist") else i for i in ids]
            if isinstance(ids[0], list):
                return [self.decode(row, skip_special_tokens) for row in ids]
        self._model._alive()
        out, err, lib = ffi.new("char **"), _core.new_error(), _core.library()
        try:
            given = ffi.new("int32_t[]", ids)
        except (TypeError, OverflowError) as error:
            raise UsageError(f"decode: {error}") from None
        status = lib.cdz_detokenize(self._model._pointer, given, len(ids), skip_special_tokens, out, err)
        _core.check(status, err)
        return _core.take_text(out[0])

    def batch_decode(self, sequences: Any, skip_special_tokens: bool = False, **kwargs: Any) -> list[str]:
        return [self.decode(row, skip_special_tokens) for row in sequences]

    def token_text(self, token: int) -> str:
        """The text that a token adds after others."""
        self._model._alive()
        out, n, err, lib = ffi.new("char **"), ffi.new("size_t *"), _core.new_error(), _core.library()
        _core.check(lib.cdz_token_text(self._model._pointer, token, out, n, err), err)
        try:
            return bytes(ffi.buffer(out[0], n[0])).decode("utf-8", "replace")
        finally:
            lib.cdz_free(out[0])

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        """Texts of tokens: what they add after others, not the vocabulary's spelling."""
        if isinstance(ids, int):
            return self.token_text(ids)
        return [self.token_text(int(i)) for i in ids]

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        if isinstance(tokens, str):
            ids = self._raw(tokens, True)
            before, behind = self._ends()
            ids = ids[len(before) : len(ids) - len(behind)]
            return ids[0] if len(ids) == 1 else self.unk_token_id
        return [self.convert_tokens_to_ids(token) for token in tokens]

    def get_vocab(self) -> dict[str, int]:
        """Texts of tokens and their ids; of tokens with the same text, the first."""
        made: dict[str, int] = {}
        for i in range(len(self)):
            try:
                made.setdefault(self.token_text(i), i)
            except CadenzaError:
                continue
        return made

    # -- chats -----------------------------------------------------------------------------------------------

    def apply_chat_template(
        self,
        conversation: Any,
        tools: Any = None,
        documents: Any = None,
        chat_template: Optional[str] = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        tokenize: bool = True,
        padding: Any = False,
        truncation: Any = False,
        max_length: Optional[int] = None,
        return_tensors: Optional[str] = None,
        return_dict: bool = True,
        **kwargs: Any,
    ) -> Any:
        """A conversation, or a list of them, as ids by the model's chat template; a text with tokenize=False."""
        if add_generation_prompt and continue_final_message:
            raise ValueError("add_generation_prompt and continue_final_message: give one of them")
        if not isinstance(conversation, (list, tuple)):
            raise UsageError(f"conversation: expected a list of messages, found {type(conversation).__name__}")
        many = bool(conversation) and isinstance(conversation[0], (list, tuple))
        variables = {**kwargs, "add_generation_prompt": add_generation_prompt}
        if continue_final_message:
            variables["continue_final_message"] = True
        rows = []
        for messages in conversation if many else [conversation]:
            document: dict[str, Any] = {"messages": messages, "chat_template_kwargs": variables}
            for name, value in (("tools", tools), ("documents", documents), ("chat_template", chat_template)):
                if value is not None:
                    document[name] = value
            rows.append(self._chat_ids(document))
        if not tokenize:
            texts = [self.decode(row) for row in rows]
            return texts if many else texts[0]
        made = self._pad(rows, padding, max_length, return_tensors, not many and return_tensors is None, None, True)
        return made if return_dict else made["input_ids"]

    def _chat_ids(self, document: dict[str, Any]) -> list[int]:
        self._model._alive()
        data = json.dumps(document).encode()
        out, n, err, lib = ffi.new("int32_t **"), ffi.new("size_t *"), _core.new_error(), _core.library()
        _core.check(lib.cdz_apply_chat_template(self._model._pointer, data, len(data), out, n, err), err)
        try:
            return list(ffi.unpack(out[0], n[0])) if n[0] else []
        finally:
            lib.cdz_free(out[0])

    # -- facts -----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._info.get("vocab_size") or self._model._vocab)

    @property
    def vocab_size(self) -> int:
        return len(self)

    def _special(self, name: str, which: int) -> Any:
        return getattr(self, f"_token_{name}")[which]

    def _set_special(self, name: str, token: Optional[str]) -> None:
        found = None if token is None else self.convert_tokens_to_ids(token)
        setattr(self, f"_token_{name}", (token, found))

    def _set_special_id(self, name: str, token: Optional[int]) -> None:
        setattr(self, f"_token_{name}", (None if token is None else self.token_text(token), token))

    bos_token = property(lambda self: self._special("bos", 0), lambda self, v: self._set_special("bos", v))
    eos_token = property(lambda self: self._special("eos", 0), lambda self, v: self._set_special("eos", v))
    pad_token = property(lambda self: self._special("pad", 0), lambda self, v: self._set_special("pad", v))
    unk_token = property(lambda self: self._special("unk", 0), lambda self, v: self._set_special("unk", v))
    bos_token_id = property(lambda self: self._special("bos", 1), lambda self, v: self._set_special_id("bos", v))
    eos_token_id = property(lambda self: self._special("eos", 1), lambda self, v: self._set_special_id("eos", v))
    pad_token_id = property(lambda self: self._special("pad", 1), lambda self, v: self._set_special_id("pad", v))
    unk_token_id = property(lambda self: self._special("unk", 1), lambda self, v: self._set_special_id("unk", v))

    @property
    def all_special_tokens(self) -> list[str]:
        return [t for t in (self.bos_token, self.eos_token, self.unk_token, self.pad_token) if t is not None]

    @property
    def all_special_ids(self) -> list[int]:
        return [t for t in (self.bos_token_id, self.eos_token_id, self.unk_token_id, self.pad_token_id) if t is not None]

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a tokenizer is no list: call it with a text")

    def __repr__(self) -> str:
        return f"<tokenizer of {self.name_or_path}, {len(self)} tokens>"


class AutoTokenizer(Tokenizer):
    """Opens tokenizers: :meth:`Tokenizer.from_pretrained`."""
