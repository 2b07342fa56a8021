"""Tokenizers: the model's own, with transformers' surface. transformers' tokenizers work beside it, since only ids cross."""

from __future__ import annotations

import copy
import difflib
import json
import pathlib
import threading
from typing import TYPE_CHECKING, Any, Iterator, Optional, Union, cast

from . import _core, arrays, templates
from ._abi import ffi
from .errors import CadenzaError, StateError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import os

    from .model import Model

__all__ = ["AutoTokenizer", "Tokenizer", "BatchEncoding"]

_RENDERED = 8  # templates of the caller's own that a tokenizer keeps ready
_SPECIAL = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")  # in transformers' order
_NO_LENGTH = int(1e30)  # transformers' model_max_length of a tokenizer that names none
_PADDING = {True: "longest", False: "do_not_pad", None: "do_not_pad"}
_TRUNCATION = {True: "longest_first", False: "do_not_truncate", None: "do_not_truncate"}
_FILES = ("vocab.json", "vocab.txt", "merges.txt", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja")
_ENDINGS = (".spm", ".model", ".tiktoken")


def _word(name: str, given: Any, by_flag: dict[Any, str], words: tuple[str, ...]) -> str:
    """A strategy of padding or truncation."""
    word = getattr(given, "value", given)
    word = by_flag[word] if isinstance(word, bool) or word is None else word
    if word not in words:
        raise UsageError(f"{name}: expected True, False or one of {list(words)}, found {given!r}")
    return str(word)


def _clean(text: str) -> str:
    """transformers' clean_up_tokenization."""
    for before, after in ((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"), (" 's", "'s"),
                          (" 've", "'ve"), (" 're", "'re")):  # fmt: skip
        text = text.replace(before, after)
    return text


class _Alone:
    """A folder with a tokenizer and no weights, as a model that only tokenizes."""

    def __init__(self, folder: pathlib.Path) -> None:
        from .transformers import _Bare

        self._runtime = _core.runtime(device="cpu")
        self._bare = _Bare(self._runtime, 1 << 20, str(folder))
        self._pointer = self._bare.pointer
        self._info = templates.read_json(folder / "config.json")
        self.name_or_path, self._vocab = str(folder), 1 << 20

    def _alive(self) -> None:
        self._runtime.check()


def _is_alone(folder: pathlib.Path) -> bool:
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    has = any(name in _FILES or name.startswith("tokenizer") or name.endswith(_ENDINGS) for name in names)
    return has and not any(name.endswith((".safetensors", ".gguf", ".bin")) for name in names)


class BatchEncoding(dict):  # type: ignore[type-arg]
    """input_ids and attention_mask, as keys and as attributes; ``generate(**encoding)``."""

    @property
    def data(self) -> dict[str, Any]:
        return dict(self)

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
        self._config = templates.read_json(path / "tokenizer_config.json") if path.is_dir() else {}
        self.padding_side, self.truncation_side = templates.sides_of(path, model._info.get("model_type"))
        self._templates = templates.of_folder(path) if path.is_dir() else self._info.get("chat_template")
        self._own_templates = copy.copy(self._templates)
        self._rendered: dict[tuple[str, bool], templates.Rendered] = {}
        self._lock = threading.Lock()
        longest = self._config.get("model_max_length") if path.is_dir() else int(_core.library().cdz_model_context(model._pointer))
        self.model_max_length = int(longest or _NO_LENGTH)
        self.clean_up_tokenization_spaces = bool(self._config.get("clean_up_tokenization_spaces"))
        self.model_input_names = list(self._config.get("model_input_names") or ("input_ids", "attention_mask"))
        self._affixes: Optional[tuple[list[int], list[int]]] = None
        for name in ("bos", "eos", "pad", "unk"):
            setattr(self, f"_token_{name}", (self._info.get(f"{name}_token"), self._info.get(f"{name}_token_id")))
        for name in ("sep", "cls", "mask"):
            token = self._config.get(f"{name}_token")
            self._set_special(name, token.get("content") if isinstance(token, dict) else token)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Union[str, "os.PathLike[str]"], **kwargs: Any) -> "Tokenizer":
        """The tokenizer of a model's folder, file or id. OSError: there is none."""
        from .model import Model

        sides = {name: kwargs.pop(name) for name in ("padding_side", "truncation_side") if kwargs.get(name) is not None}
        for name, side in sides.items():
            if side not in ("left", "right"):
                raise UsageError(f'{name}: expected "left" or "right", found {side!r}')
        folder = pathlib.Path(pretrained_model_name_or_path)
        if _is_alone(folder):
            made = cls(cast("Model", _Alone(folder)))
        else:
            made = cls(Model.from_pretrained(
                pretrained_model_name_or_path,
                **{k: v for k, v in kwargs.items() if k in ("revision", "cache_dir", "threads", "device")},
            ))  # fmt: skip
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
        truncation: Any = None,
        max_length: Optional[int] = None,
        return_tensors: Optional[str] = None,
        add_special_tokens: bool = True,
        padding_side: Optional[str] = None,
        return_attention_mask: Optional[bool] = True,
        return_token_type_ids: Optional[bool] = False,
        return_special_tokens_mask: bool = False,
        return_length: bool = False,
        pad_to_multiple_of: Optional[int] = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        for name in ("return_offsets_mapping", "return_overflowing_tokens", "is_split_into_words"):
            if kwargs.get(name):
                raise UnsupportedError(f"{name}: ids carry no places of the text")
        if text_pair is not None:
            raise UnsupportedError("text_pair: pairs of texts are for classifiers; join the two, or encode each")
        single = isinstance(text, str)
        if not single and not isinstance(text, (list, tuple)):
            raise UsageError(f"text: expected a text or a list of texts, found {type(text).__name__}")
        how, most = self._lengths_of(padding, truncation, max_length, pad_to_multiple_of)
        ends = self._ends() if add_special_tokens else ([], [])
        rows = [self._cut(self.encode(t, add_special_tokens=False), most, ends) for t in ([text] if single else text)]
        rows = [[*ends[0], *row, *ends[1]] for row in rows]
        extra = {"special_tokens_mask": [self._marks(row, ends) for row in rows]} if return_special_tokens_mask else {}
        made = self._pad(rows, how, return_tensors, single, padding_side, return_attention_mask is not False, pad_to_multiple_of, extra)
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

    def _lengths_of(self, padding: Any, truncation: Any, max_length: Optional[int], multiple: Optional[int] = None
                    ) -> tuple[Any, Optional[int]]:  # fmt: skip
        """(how far to pad: None, "longest" or a length; where to cut, or None), as transformers has them."""
        if max_length is not None and (not isinstance(max_length, int) or isinstance(max_length, bool) or max_length < 0):
            raise UsageError(f"max_length: expected a whole number of tokens, found {max_length!r}")
        if max_length is not None and padding is False and truncation is None:
            truncation = True
        pads = _word("padding", padding, _PADDING, ("longest", "max_length", "do_not_pad"))
        cuts = _word("truncation", truncation, _TRUNCATION, ("longest_first", "only_first", "only_second", "do_not_truncate"))
        most = max_length
        if most is None and self.model_max_length < _NO_LENGTH:
            most = self.model_max_length
        cut = most if cuts != "do_not_truncate" else None
        if cut is not None and pads != "do_not_pad" and cut % (multiple or 1):
            raise UsageError(f"max_length: {cut} is cut to and padded to a multiple of {multiple}, which it is not")
        return (most if pads == "max_length" else pads if pads == "longest" else None), cut

    def _cut(self, row: list[int], most: Optional[int], ends: tuple[list[int], list[int]] = ([], [])) -> list[int]:
        """Without what stands before and behind it, which is never cut."""
        if most is None:
            return row
        room = max(0, most - len(ends[0]) - len(ends[1]))
        return row[:room] if self.truncation_side == "right" else row[max(0, len(row) - room) :]

    @staticmethod
    def _marks(row: list[int], ends: tuple[list[int], list[int]]) -> list[int]:
        before, behind = len(ends[0]), len(ends[1])
        return [1] * before + [0] * (len(row) - before - behind) + [1] * behind

    def _pad(self, rows: list[list[int]], how: Any, tensors: Optional[str], single: bool, side: Optional[str], with_mask: bool,
             multiple: Optional[int] = None, extra: Optional[dict[str, list[list[int]]]] = None) -> BatchEncoding:  # fmt: skip
        """how: as _lengths_of says it. extra: further rows of numbers; a mask among them is the rows' own."""
        made: dict[str, list[list[int]]] = {"input_ids": rows, "attention_mask": [[1] * len(row) for row in rows], **(extra or {})}
        if how is not None:
            if self.pad_token_id is None:
                raise UsageError("the tokenizer has no pad token: tokenizer.pad_token = tokenizer.eos_token")
            width = how if how != "longest" else max((len(row) for row in rows), default=0)
            width += -width % (multiple or 1)
            left = (side or self.padding_side) == "left"
            for name, values in made.items():
                filler = int(self.pad_token_id) if name == "input_ids" else int(name == "special_tokens_mask")
                fills = [[filler] * max(0, width - len(row)) for row in values]
                made[name] = [fill + row if left else row + fill for fill, row in zip(fills, values)]
        if not with_mask:
            del made["attention_mask"]
        rows = made["input_ids"]
        if tensors is None:
            return BatchEncoding({name: value[0] if single else value for name, value in made.items()})
        kind = {"pt": arrays.TORCH, "np": arrays.NUMPY}.get(tensors)
        if kind is None:
            raise UsageError(f'return_tensors: expected "pt", "np" or None, found {tensors!r}')
        if len({len(row) for row in rows}) > 1:
            if kind == arrays.NUMPY:
                return BatchEncoding({name: self._ragged(value) for name, value in made.items()})
            raise ValueError("texts of different lengths make no tensor: padding=True makes them equal")
        return BatchEncoding({name: arrays.ids_like(value, kind) for name, value in made.items()})

    @staticmethod
    def _ragged(rows: list[list[int]]) -> Any:
        """An array of arrays, as transformers makes it."""
        import numpy

        made = numpy.empty(len(rows), dtype=object)
        for i, row in enumerate(rows):
            made[i] = numpy.array(row, dtype=numpy.int64)
        return made

    def pad(self, encoded_inputs: Any, padding: Any = True, max_length: Optional[int] = None, pad_to_multiple_of: Optional[int] = None,
            padding_side: Optional[str] = None, return_attention_mask: Optional[bool] = None, return_tensors: Optional[str] = None,
            **kwargs: Any) -> BatchEncoding:  # fmt: skip
        """Pads rows of ids: a mapping with input_ids and perhaps masks, or a list of such; a row alone too."""
        if isinstance(encoded_inputs, (list, tuple)):
            encoded_inputs = {name: [one[name] for one in encoded_inputs] for name in (encoded_inputs[0] if encoded_inputs else ())}
        if "input_ids" not in encoded_inputs:
            raise UsageError(f"pad: expected input_ids, found {sorted(encoded_inputs)}")
        given = {name: arrays.plain(value) for name, value in encoded_inputs.items()}
        single = bool(given["input_ids"]) and isinstance(given["input_ids"][0], int)
        rows = {name: [list(value)] if single else [list(arrays.plain(row)) for row in value] for name, value in given.items()}
        how, _ = self._lengths_of(padding, False, max_length)
        ids = rows.pop("input_ids")
        return self._pad(ids, how, return_tensors, single and return_tensors is None, padding_side, return_attention_mask is not False,
                         pad_to_multiple_of, rows)  # fmt: skip

    # -- ids to texts ----------------------------------------------------------------------------------------

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, clean_up_tokenization_spaces: Any = None, **kwargs: Any) -> Any:
        """The text of an id or of ids of any kind; of rows, a list of texts."""
        ids = token_ids.tolist() if hasattr(token_ids, "tolist") else token_ids
        ids = [ids] if isinstance(ids, int) else list(ids)
        if ids and isinstance(ids[0], (list, tuple)):
            return [self.decode(row, skip_special_tokens, clean_up_tokenization_spaces) for row in ids]
        if ids and hasattr(ids[0], "tolist"):
            ids = [i.tolist() if hasattr(i, "tolist") else i for i in ids]
            if isinstance(ids[0], list):
                return [self.decode(row, skip_special_tokens, clean_up_tokenization_spaces) for row in ids]
        self._model._alive()
        cleans = self.clean_up_tokenization_spaces if clean_up_tokenization_spaces is None else clean_up_tokenization_spaces
        try:
            if min(ids, default=0) < 0:
                raise TypeError(f"id {min(ids)} is negative")
            made = templates.text(self._model._pointer, ids, skip_special_tokens)
            return _clean(made) if cleans else made
        except (TypeError, OverflowError) as error:
            raise UsageError(f"decode: {error}") from None

    def batch_decode(self, sequences: Any, skip_special_tokens: bool = False, clean_up_tokenization_spaces: Any = None,
                     **kwargs: Any) -> list[str]:  # fmt: skip
        return [self.decode(row, skip_special_tokens, clean_up_tokenization_spaces) for row in sequences]

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

    def _added(self) -> dict[str, int]:
        path = pathlib.Path(self.name_or_path)
        listed = templates.read_json(path / "tokenizer.json").get("added_tokens") if path.is_dir() else None
        if listed is None:
            pairs = [(self._special(name, 0), self._special(name, 1)) for name in _SPECIAL]
            return {token: i for token, i in pairs if token is not None and i is not None}
        return {each["content"]: each["id"] for each in listed}

    def get_added_vocab(self) -> dict[str, int]:
        """Tokens that stand beside the vocabulary, and their ids."""
        return dict(sorted(self._added().items(), key=lambda pair: pair[1]))

    @property
    def added_tokens_encoder(self) -> dict[str, int]:
        return self.get_added_vocab()

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """How many tokens stand before and behind a text."""
        if pair:
            raise UnsupportedError("pair: pairs of texts are for classifiers")
        return sum(len(end) for end in self._ends())

    def save_pretrained(self, save_directory: Union[str, "os.PathLike[str]"], **kwargs: Any) -> tuple[str, ...]:
        """Writes the tokenizer's files and what was set since, for from_pretrained of this package and of transformers. The files'
        names. UnsupportedError: a GGUF file has no such files."""
        source, target = pathlib.Path(self.name_or_path), pathlib.Path(save_directory)
        if not source.is_dir():
            raise UnsupportedError(f"save_pretrained: {self.name_or_path} is a file, which has its tokenizer inside")
        if target.is_file():
            raise UsageError(f"save_pretrained: expected a folder, and {target} is a file")
        target.mkdir(parents=True, exist_ok=True)
        for path in source.iterdir():
            if path.name in _FILES or path.name.startswith("tokenizer") or path.name.endswith(_ENDINGS):
                if path.resolve() != (target / path.name).resolve():
                    (target / path.name).write_bytes(path.read_bytes())
        config = {**self._config, **self._changed()}
        if self._templates != self._own_templates:
            config.pop("chat_template", None)
            (target / "chat_template.jinja").unlink(missing_ok=True)
            if isinstance(self._templates, dict):
                config["chat_template"] = [{"name": name, "template": text} for name, text in self._templates.items()]
            elif self._templates is not None:
                (target / "chat_template.jinja").write_text(self._templates, encoding="utf-8")
        (target / "tokenizer_config.json").write_text(json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
        return tuple(sorted(str(path) for path in target.iterdir()))

    def _changed(self) -> dict[str, Any]:
        """Of the config's values, those that attributes say otherwise."""
        made: dict[str, Any] = {"padding_side": self.padding_side, "truncation_side": self.truncation_side}
        if "tokenizer_class" not in self._config and (pathlib.Path(self.name_or_path) / "tokenizer.json").exists():
            made["tokenizer_class"] = "PreTrainedTokenizerFast"
        for name in _SPECIAL:
            token, old = self._special(name, 0), self._config.get(f"{name}_token")
            if token != (old.get("content") if isinstance(old, dict) else old):
                made[f"{name}_token"] = token
        if self.model_max_length != self._config.get("model_max_length", _NO_LENGTH):
            made["model_max_length"] = self.model_max_length
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
        how, most = self._lengths_of(padding, bool(truncation) and truncation, max_length)
        made = self._pad([self._cut(row, most) for row in rows], how, return_tensors, not many and return_tensors is None, None, True)
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
    sep_token = property(lambda self: self._special("sep", 0), lambda self, v: self._set_special("sep", v))
    cls_token = property(lambda self: self._special("cls", 0), lambda self, v: self._set_special("cls", v))
    mask_token = property(lambda self: self._special("mask", 0), lambda self, v: self._set_special("mask", v))
    bos_token_id = property(lambda self: self._special("bos", 1), lambda self, v: self._set_special_id("bos", v))
    eos_token_id = property(lambda self: self._special("eos", 1), lambda self, v: self._set_special_id("eos", v))
    pad_token_id = property(lambda self: self._special("pad", 1), lambda self, v: self._set_special_id("pad", v))
    unk_token_id = property(lambda self: self._special("unk", 1), lambda self, v: self._set_special_id("unk", v))

    sep_token_id = property(lambda self: self._special("sep", 1), lambda self, v: self._set_special_id("sep", v))
    cls_token_id = property(lambda self: self._special("cls", 1), lambda self, v: self._set_special_id("cls", v))
    mask_token_id = property(lambda self: self._special("mask", 1), lambda self, v: self._set_special_id("mask", v))

    is_fast = True

    @property
    def special_tokens_map(self) -> dict[str, str]:
        named = {f"{name}_token": self._special(name, 0) for name in _SPECIAL}
        return {name: token for name, token in named.items() if token is not None}

    @property
    def all_special_tokens(self) -> list[str]:
        return list(dict.fromkeys(t for t in (self._special(name, 0) for name in _SPECIAL) if t is not None))

    @property
    def all_special_ids(self) -> list[int]:
        return list(dict.fromkeys(t for t in (self._special(name, 1) for name in _SPECIAL) if t is not None))

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a tokenizer is no list: call it with a text")

    def __repr__(self) -> str:
        return f"<tokenizer of {self.name_or_path}, {len(self)} tokens>"


class AutoTokenizer(Tokenizer):
    """Opens tokenizers: :meth:`Tokenizer.from_pretrained`."""
