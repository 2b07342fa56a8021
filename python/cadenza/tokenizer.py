"""Tokenizers: the model's own, with transformers' surface. transformers' tokenizers work beside it, since only ids cross."""

from __future__ import annotations

import copy
import difflib
import json
import pathlib
import threading
from typing import TYPE_CHECKING, Any, Iterator, Optional, Union

from . import _core, arrays, templates
from ._abi import ffi
from .errors import CadenzaError, StateError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import os

    from .model import Model

__all__ = ["AutoTokenizer", "Tokenizer", "BatchEncoding"]

_RENDERED = 8  # templates of the caller's own that a tokenizer keeps ready


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

    padding_side, truncation_side, pad_token and chat_template can be set. The sides are those of tokenizer_config.json, else
    transformers' for the tokenizer's class: mostly "right", which generation from a batch does not want.
    """

    def __init__(self, model: "Model") -> None:
        model._alive()
        self._model = model
        info = _core.library().cdz_tokenizer_info_json(model._pointer)
        if not info:
            raise StateError(f"{model.name_or_path}: the model has no tokenizer")
        self._info: dict[str, Any] = json.loads(_core.take_text(info))
        self.name_or_path = model.name_or_path
        path = pathlib.Path(self.name_or_path)
        self.padding_side, self.truncation_side = templates.sides_of(path, model._info.get("model_type"))
        self._templates = templates.of_folder(path) if path.is_dir() else self._info.get("chat_template")
        self._own_templates = copy.copy(self._templates)
        self._rendered: dict[tuple[str, bool], templates.Rendered] = {}
        self._lock = threading.Lock()
        self.model_max_length = int(_core.library().cdz_model_context(model._pointer)) or 10**30
        for name in ("bos", "eos", "pad", "unk"):
            setattr(self, f"_token_{name}", (self._info.get(f"{name}_token"), self._info.get(f"{name}_token_id")))
        self._affixes: Optional[tuple[list[int], list[int]]] = None

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Union[str, "os.PathLike[str]"], **kwargs: Any) -> "Tokenizer":
        """The tokenizer of a model's folder, file or id. OSError: there is none."""
        from .model import Model

        sides = {name: kwargs.pop(name) for name in ("padding_side", "truncation_side") if kwargs.get(name) is not None}
        for name, side in sides.items():
            if side not in ("left", "right"):
                raise UsageError(f'{name}: expected "left" or "right", found {side!r}')
        model = Model.from_pretrained(
            pretrained_model_name_or_path,
            **{k: v for k, v in kwargs.items() if k in ("revision", "cache_dir", "threads", "device")},
        )
        made = cls(model)
        for name, side in sides.items():
            setattr(made, name, side)
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
        text_pair: Any = None,
        *,
        padding: Any = False,
        truncation: Any = False,
        max_length: Optional[int] = None,
        return_tensors: Optional[str] = None,
        add_special_tokens: bool = True,
        padding_side: Optional[str] = None,
        return_attention_mask: bool = True,
        return_token_type_ids: bool = False,
        return_length: bool = False,
        pad_to_multiple_of: Optional[int] = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        if text_pair is not None:
            raise UnsupportedError("text_pair: pairs of texts are for classifiers; join the two, or encode each")
        single = isinstance(text, str)
        if not single and not isinstance(text, (list, tuple)):
            raise UsageError(f"text: expected a text or a list of texts, found {type(text).__name__}")
        rows = [self.encode(t, add_special_tokens=add_special_tokens) for t in ([text] if single else text)]
        if truncation and max_length is not None:
            rows = [row[:max_length] if self.truncation_side == "right" else row[-max_length:] for row in rows]
        made = self._pad(rows, padding, max_length, return_tensors, single, padding_side, return_attention_mask, pad_to_multiple_of)
        if return_token_type_ids:
            ids = made.pop("input_ids")
            zeros = ids * 0 if return_tensors else [0] * len(ids) if single else [[0] * len(row) for row in ids]
            made = BatchEncoding({"input_ids": ids, "token_type_ids": zeros, **made})
        if return_length:
            made["length"] = self._lengths(made["input_ids"], single, return_tensors)
        return made

    @staticmethod
    def _lengths(ids: Any, single: bool, tensors: Optional[str]) -> Any:
        """Of each row, pads counted."""
        lengths = [len(ids)] if single and not tensors else [len(row) for row in ids]
        if tensors:
            return arrays.ids_like([lengths], arrays.kind_of(ids))[0]
        return lengths

    def _pad(self, rows: list[list[int]], padding: Any, max_length: Optional[int], tensors: Optional[str], single: bool,
             side: Optional[str], with_mask: bool, multiple: Optional[int] = None) -> BatchEncoding:  # fmt: skip
        mask = [[1] * len(row) for row in rows]
        if padding and padding != "do_not_pad":
            if self.pad_token_id is None:
                raise UsageError("the tokenizer has no pad token: tokenizer.pad_token = tokenizer.eos_token")
            width = max_length if padding == "max_length" and max_length else max((len(row) for row in rows), default=0)
            width += -width % (multiple or 1)
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
        try:
            return templates.text(self._model._pointer, ids, skip_special_tokens)
        except (TypeError, OverflowError) as error:
            raise UsageError(f"decode: {error}") from None

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

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """The text of tokens as this tokenizer writes them."""
        return "".join(tokens)

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
        """A conversation, or a list of them, as ids by the chat template; a text with tokenize=False.

        chat_template: a template's text, or the name of one of the model's. ValueError: there is no template, or it fails.
        """
        if add_generation_prompt and continue_final_message:
            raise ValueError("add_generation_prompt and continue_final_message: give one of them")
        if not isinstance(conversation, (list, tuple)):
            raise UsageError(f"conversation: expected a list of messages, found {type(conversation).__name__}")
        if kwargs.pop("return_assistant_tokens_mask", False):
            raise UnsupportedError("return_assistant_tokens_mask: ids carry no marks of who wrote them")
        many = bool(conversation) and isinstance(conversation[0], (list, tuple))
        variables = {**kwargs, "add_generation_prompt": add_generation_prompt}
        if continue_final_message:
            variables["continue_final_message"] = True
        picked = self._pick(chat_template, tools)
        rows = []
        for messages in conversation if many else [conversation]:
            document: dict[str, Any] = {"messages": messages, "chat_template_kwargs": variables}
            for key, value in (("tools", tools), ("documents", documents)):
                if value is not None:
                    document[key] = value
            rows.append(self._chat(document, picked, tokenize))
        if not tokenize:
            return rows if many else rows[0]
        if truncation and max_length is not None:
            rows = [row[:max_length] if self.truncation_side == "right" else row[-max_length:] for row in rows]
        made = self._pad(rows, padding, max_length, return_tensors, not many and return_tensors is None, None, True)
        return made if return_dict else made["input_ids"]

    @property
    def chat_template(self) -> templates.Templates:
        """The template's text; of several, {name: text}; None."""
        return self._templates

    @chat_template.setter
    def chat_template(self, given: templates.Templates) -> None:
        texts = list(given.values()) if isinstance(given, dict) else [given]
        if given is not None and not all(isinstance(each, str) for each in texts):
            raise UsageError(f"chat_template: expected a text, or texts by their names, found {type(given).__name__}")
        self._templates = given

    def get_chat_template(self, chat_template: Optional[str] = None, tools: Any = None) -> str:
        """The text of the template that apply_chat_template would take."""
        many = self._templates if isinstance(self._templates, dict) else {}
        if chat_template is not None:
            return many.get(chat_template, chat_template)
        if isinstance(self._templates, str):
            return self._templates
        if tools is not None and "tool_use" in many:
            return many["tool_use"]
        if "default" in many:
            return many["default"]
        if many:
            raise UsageError(f"chat_template: the model has several and no default: give one of {sorted(many)}")
        raise UsageError("chat_template: the model has none: set tokenizer.chat_template, or give apply_chat_template(chat_template=TEXT)")

    def _pick(self, given: Optional[str], tools: Any) -> tuple[bool, Optional[str], Optional[str]]:
        """(whether the library has the template, its name there, its text if that is known)"""
        if given is not None and not isinstance(given, str):
            raise UsageError(f"chat_template: expected a text or a name, found {type(given).__name__}")
        own = self._templates == self._own_templates
        named = self._templates if isinstance(self._templates, dict) else {"default": self._templates} if self._templates else {}
        if given is None or "{" in given:
            return own and given is None, None, self.get_chat_template(given, tools)
        if given in named:
            return own, given, named[given]
        if own and not pathlib.Path(self.name_or_path).is_dir():
            return True, given, None  # the library knows the names of a GGUF file's templates
        near = difflib.get_close_matches(given, list(named), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"chat_template: {given!r} is no text of a template, and no name of one: found {sorted(named)}{hint}")

    def _chat(self, document: dict[str, Any], picked: tuple[bool, Optional[str], Optional[str]], tokenize: bool) -> Any:
        """A conversation's ids, or its text."""
        own, name, whole = picked
        self._model._alive()
        if own and (tokenize or whole is None):
            found = templates.ids(self._model._pointer, document if name is None else {**document, "chat_template": name})
            return found if tokenize else self.decode(found)
        assert whole is not None
        rendered = self._render(whole, exact=not tokenize)
        return rendered.ids(document) if tokenize else rendered.text(document)

    def _render(self, whole: str, exact: bool) -> templates.Rendered:
        """Kept for the next conversation: of few texts."""
        with self._lock:
            made = self._rendered.pop((whole, exact), None)
            if made is None:
                special = templates.special_of(pathlib.Path(self.name_or_path), self._info)
                made = templates.Rendered(self._model, whole, special, exact)
            self._rendered[whole, exact] = made
            if len(self._rendered) > _RENDERED:
                del self._rendered[next(iter(self._rendered))]
            return made

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

    is_fast = True

    @property
    def special_tokens_map(self) -> dict[str, str]:
        named = {f"{name}_token": self._special(name, 0) for name in ("bos", "eos", "unk", "pad")}
        return {name: token for name, token in named.items() if token is not None}

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
