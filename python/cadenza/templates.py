"""Chat templates: those that a model brings, the sides that its tokenizer pads on, and templates of the caller's own.

The library renders the templates of a model's folder. For a text of the caller's a folder is made that has it in their place, and a
model without weights is opened on it: with the model's own tokenizer for ids, or with one of 256 bytes, which gives any text back.
Any thread may call; a :class:`Rendered` is not changed after it is made.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _core
from ._abi import ffi
from .errors import CadenzaError, UnsupportedError

if TYPE_CHECKING:
    from .model import Model

Templates = Union[None, str, dict[str, str]]

# transformers' classes that pad on the left, and the types of models that they stand for.
_LEFT_CLASSES = {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "CohereTokenizer", "XLNetTokenizer", "Siglip2Tokenizer"}
_LEFT_TYPES = set(
    "llama llama4 llama4_text code_llama gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 t5gemma "
    "cohere cohere2 aya_vision idefics idefics2 xlnet".split()
)


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """An object of a file, {} where there is none."""
    try:
        made = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return made if isinstance(made, dict) else {}


# -- what a folder says --------------------------------------------------------------------------------------------


def of_folder(folder: pathlib.Path) -> Templates:
    """A folder's template; of several, {name: template}; None."""
    files = sorted((folder / "additional_chat_templates").glob("*.jinja"))
    found = {file.stem: file.read_text(encoding="utf-8") for file in files}
    plain = folder / "chat_template.jinja"
    if plain.is_file():
        found = {"default": plain.read_text(encoding="utf-8"), **found}
    if found:
        return found["default"] if list(found) == ["default"] else found
    for name in ("tokenizer_config.json", "chat_template.json"):
        given = read_json(folder / name).get("chat_template")
        if isinstance(given, list):
            return {each["name"]: each["template"] for each in given}
        if given is not None:
            return str(given)
    return None


def sides_of(path: pathlib.Path, model_type: Optional[str]) -> tuple[str, str]:
    """(padding_side, truncation_side) of tokenizer_config.json, else what transformers takes for the tokenizer's class."""
    config = read_json(path / "tokenizer_config.json") if path.is_dir() else {}
    named = str(config.get("tokenizer_class") or "").replace("Fast", "")
    left = model_type in _LEFT_TYPES if not named else named in _LEFT_CLASSES and (not model_type or model_type in _LEFT_TYPES)
    return config.get("padding_side") or ("left" if left else "right"), config.get("truncation_side") or "right"


# -- templates of the caller's own -----------------------------------------------------------------------------------


class Rendered:
    """A model without weights whose chat template is a given text. exact: for text(), of any text; else for ids()."""

    def __init__(self, model: "Model", template: str, special: dict[str, Any], exact: bool) -> None:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="cadenza-"))
        weakref.finalize(self, _remove, str(folder), os.getpid())
        if exact:
            _write_bytes(folder, special)
        else:
            _link(pathlib.Path(model.name_or_path), folder)
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
        self._folder = str(folder)
        self._bare = _open(model, self._folder)

    def ids(self, document: dict[str, Any]) -> list[int]:
        """The ids of a conversation; what is wrong is said of the text, not of the folder."""
        try:
            return ids(self._bare.pointer, document)
        except CadenzaError as error:
            raise type(error)(str(error).replace(f"{self._folder}/chat_template.jinja", "chat_template")) from None

    def text(self, document: dict[str, Any]) -> str:
        """The text of a conversation."""
        return text(self._bare.pointer, self.ids(document))


def _remove(folder: str, owner: int) -> None:
    """Of the process that made it: a forked child leaves it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _open(model: "Model", folder: str) -> Any:
    """On the model's engine; on one of the CPU where that is another device's."""
    from .transformers import _Bare

    vocab = max(1024, model._vocab)
    try:
        return _Bare(model._runtime, vocab, folder)
    except UnsupportedError:
        return _Bare(_core.runtime(device="cpu"), vocab, folder)


def _link(source: pathlib.Path, folder: pathlib.Path) -> None:
    """What a tokenizer is made of, but for templates."""
    if not source.is_dir():
        raise UnsupportedError(
            f"{source}: ids by a template of your own need a model folder: take apply_chat_template(tokenize=False), and encode the text"
        )
    for file in source.iterdir():
        if file.suffix in (".json", ".model", ".txt", ".spm") and not file.name.startswith("chat_template") and file.is_file():
            (folder / file.name).symlink_to(file.resolve())


def _write_bytes(folder: pathlib.Path, special: dict[str, Any]) -> None:
    """A tokenizer whose tokens are bytes. special: bos_token and the like, which templates may name."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printed]
    signs = [chr(byte) for byte in printed] + [chr(256 + i) for i in range(len(others))]
    whole = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    made: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": whole,
        "post_processor": None, "decoder": whole,
        "model": {"type": "BPE", "vocab": {sign: i for i, sign in enumerate(signs)}, "merges": []},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(made), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"clean_up_tokenization_spaces": False, **special}), encoding="utf-8")


def special_of(path: pathlib.Path, info: dict[str, Any]) -> dict[str, Any]:
    """The special tokens that templates may name."""
    names = [f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")]
    config = read_json(path / "tokenizer_config.json") if path.is_dir() else info
    made = {name: config[name] for name in names if config.get(name) is not None}
    if isinstance(config.get("extra_special_tokens"), dict):
        made["extra_special_tokens"] = config["extra_special_tokens"]
    return made


def ids(pointer: Any, document: dict[str, Any]) -> list[int]:
    """The ids of a conversation by a model's template."""
    data = json.dumps(document).encode()
    out, n, err, lib = ffi.new("int32_t **"), ffi.new("size_t *"), _core.new_error(), _core.library()
    _core.check(lib.cdz_apply_chat_template(pointer, data, len(data), out, n, err), err)
    try:
        return list(ffi.unpack(out[0], n[0])) if n[0] else []
    finally:
        lib.cdz_free(out[0])


def text(pointer: Any, given: list[int], skip_special: bool = False) -> str:
    """The text of ids."""
    out, err = ffi.new("char **"), _core.new_error()
    status = _core.library().cdz_detokenize(pointer, ffi.new("int32_t[]", given), len(given), skip_special, out, err)
    _core.check(status, err)
    return _core.take_text(out[0])
