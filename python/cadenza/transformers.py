"""Cadenza inside transformers: its processors, criteria and strategies over a transformers model.

    import cadenza.transformers as inside
    model.generate(ids, logits_processor=[inside.processor("dry", multiplier=0.8)])
    model.generate(ids, custom_generate=inside.strategy("mirostat", tau=3.0), do_sample=True, trust_remote_code=True)

Any plugin will do, in C or Lua, by its id or file. Numbers are those that Cadenza's own models get from it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from . import _core, arrays, hub
from ._abi import ffi
from .config import PARAMETERS, GenerationConfig
from .errors import CadenzaError, InputError, StateError, UsageError
from .model import Model, ModelConfig, Order
from .processors import LogitsProcessor, Part, StoppingCriteria, in_callback
from .sampling import next_seed

if TYPE_CHECKING:
    Name = Union[str, "os.PathLike[str]"]

__all__ = ["processor", "criterion", "strategy"]

_SOME = 1000  # scores of a row to try a plugin with
_IDS = 1 << 20  # ids that criteria take where no vocabulary is known
# What a pipeline calls a plugin of a file: parameters of these names are the request's all the same.
_ALWAYS = set(
    "eos_token_id pad_token_id bos_token_id do_sample max_length max_new_tokens min_length min_new_tokens num_beams "
    "num_return_sequences seed".split()
)


_OF_FILE = "of-file"  # a file's plugin in a pipeline: names of sections are short


# -- pipelines -----------------------------------------------------------------------------------------------------


def _reference(name: "Name") -> str:
    """What a pipeline calls a plugin: its id, or lua: and the file."""
    text = os.fspath(name)
    if text.startswith("lua:"):
        text = text[4:]
    if text.endswith(".lua"):
        return "lua:" + os.path.abspath(text)
    return os.path.abspath(text) if os.path.exists(text) and os.sep in text else text


def _value(name: str, value: Any) -> str:
    """A parameter as an ini file has it."""
    value = arrays.plain(value)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        text = value if isinstance(value, str) else json.dumps(value)
    except (TypeError, ValueError):
        text = "\n"
    if text != text.strip():
        raise UsageError(f"{name}: {value!r} begins or ends with a space, which one text of a pipeline cannot: give a list, or add it in the script")
    if "\n" in text:
        raise UsageError(f"{name}: expected a number, a bool, one line of text or a list of these, found {value!r}")
    return text


def _declared(runtime: _core.Runtime) -> dict[str, set[str]]:
    """Parameters of each plugin that the runtime knows, by its id and by the id's last part."""
    out, err = ffi.new("char **"), _core.new_error()
    _core.check(_core.library().cdz_plugins_json(runtime.pointer, out, err), err)
    known: dict[str, set[str]] = {}
    for plugin in json.loads(_core.take_text(out[0])):
        names = set((plugin.get("parameters") or {}).get("properties", {}))
        known[plugin["id"]] = names
        known.setdefault(plugin["id"].rsplit(".", 1)[-1], names)
    return known


def _split(runtime: _core.Runtime, reference: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The section of the plugin's own parameters, and the generation parameters."""
    own = _declared(runtime).get(reference)
    section, others = "", {}
    for name, value in given.items():
        if _is_requests(name, own):
            others[name] = arrays.plain(value)
        else:
            section += f"{name} = {_value(name, value)}\n"
    if _word(reference) == _OF_FILE:
        section = f"[{_OF_FILE}]\nid = {reference}\n{section}"
    elif section:
        section = f"[{reference}]\n{section}"
    return section, others


def _is_requests(name: str, own: Optional[set[str]]) -> bool:
    """A generation parameter, unless a script has one of that name. own None: a file, of which nothing is known yet."""
    if name in _ALWAYS:
        return True
    scripted = own is None or "budget_ms" in own
    return name in PARAMETERS and not (scripted and (own is None or name in own))


def _word(reference: str) -> str:
    """The plugin's name in a list of the pipeline."""
    return _OF_FILE if reference.startswith("lua:") or os.sep in reference else reference


class _Pipeline:
    """A parsed pipeline, freed with the object."""

    def __init__(self, runtime: _core.Runtime, ini: str) -> None:
        out, err = ffi.new("cdz_pipeline **"), _core.new_error()
        data = ini.encode()
        lib = _core.library()
        _core.check(lib.cdz_pipeline_parse(runtime.pointer, data, len(data), b"cadenza.transformers", out, err), err)
        self.pointer = out[0]
        _core.on_delete(self, lib.cdz_pipeline_free, self.pointer)


class _Rules:
    """Processors or criteria of a pipeline over rows from outside."""

    def __init__(self, ini: str, reference: str, given: dict[str, Any], tokenizer: Any) -> None:
        self.runtime = _core.runtime(device="cpu")
        section, self.kwargs = _split(self.runtime, reference, given)
        self.pipeline = _Pipeline(self.runtime, ini + section)
        self.tokenizer = None if tokenizer is None else _folder_of(tokenizer)
        self.vocab = 0
        self.pointer: Any = None
        self.model: Optional[_Bare] = None

    def open(self, vocab: int) -> None:
        """For rows of so many scores."""
        lib = _core.library()
        self.runtime.check()
        if in_callback():
            raise StateError("processors of Cadenza run on its engine's thread, where this callback runs too: it would wait for itself")
        if self.vocab == vocab:
            return
        self.model = _Bare(self.runtime, vocab, self.tokenizer) if self.tokenizer else None
        options = _core.new_struct("cdz_rules_options", n_vocab=vocab)
        text = ffi.new("char[]", json.dumps(self.kwargs).encode())
        options.kwargs = text
        if self.model is not None:
            options.model = self.model.pointer
        out, err = ffi.new("cdz_rules **"), _core.new_error()
        _core.check(lib.cdz_rules_open(self.runtime.pointer, self.pipeline.pointer, options, out, err), err)
        self.pointer, self.vocab = _Opened(out[0]), vocab

    def process(self, ids: Any, scores: Any) -> None:
        err = _core.new_error()
        status = _core.library().cdz_rules_process(
            self.pointer.pointer, ffi.from_buffer("int32_t[]", ids), *ids.shape, ffi.from_buffer("float[]", scores), err
        )
        _core.check(status, err)

    def test(self, ids: Any) -> list[bool]:
        done, err = ffi.new("bool[]", len(ids)), _core.new_error()
        lib = _core.library()
        _core.check(lib.cdz_rules_test(self.pointer.pointer, ffi.from_buffer("int32_t[]", ids), *ids.shape, done, err), err)
        return [bool(each) for each in done]


class _Opened:
    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer
        _core.on_delete(self, _core.library().cdz_rules_free, pointer)


def _folder_of(tokenizer: Any) -> str:
    name = tokenizer if isinstance(tokenizer, (str, os.PathLike)) else getattr(tokenizer, "name_or_path", "")
    return str(hub.find_model(name))


def _ids(given: Any) -> Any:
    """Rows of ids as (rows, length) int32."""
    import numpy

    if arrays.is_torch(given):
        given = given.detach().cpu().numpy()
    made = numpy.ascontiguousarray(given)
    if made.ndim != 2 or made.dtype.kind not in "iu" or not made.size:
        raise InputError(f"input_ids: expected integers (rows, length), found {made.dtype} of shape {made.shape}")
    if made.min() < 0 or made.max() > 2**31 - 1:
        raise InputError("input_ids: a number is no token id")
    return made.astype(numpy.int32)


# -- processors and criteria ---------------------------------------------------------------------------------------


class CadenzaProcessor(LogitsProcessor):
    """A processor of Cadenza as transformers' LogitsProcessor. It keeps what the plugin knows of the rows: give each generate()
    that runs at the same time an object of its own."""

    def __init__(self, name: "Name", tokenizer: Any = None, **parameters: Any) -> None:
        reference = _reference(name)
        self.name, self.reference, self.parameters = os.fspath(name), reference, parameters
        self._rules = _Rules(f"[pipeline]\nchain = {_word(reference)}\n", reference, {"do_sample": True, **parameters}, tokenizer)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import numpy

        ids = _ids(input_ids)
        edited = numpy.array(arrays.floats(scores, "scores"), copy=True)
        if edited.ndim != 2 or len(edited) != len(ids):
            raise InputError(f"scores: expected ({len(ids)}, vocabulary), found shape {edited.shape}")
        self._rules.open(edited.shape[1])
        self._rules.process(ids, edited)
        if not arrays.is_torch(scores):
            return edited
        import torch

        return torch.from_numpy(edited).to(device=scores.device, dtype=scores.dtype)

    def compile(self) -> None:
        """Opens the plugin over a made-up vocabulary: CadenzaError says what is wrong with it, before it is used."""
        self._rules.open(_SOME)

    def __repr__(self) -> str:
        return f"<cadenza processor {self.name}>"


class CadenzaCriterion(StoppingCriteria):
    """A stopping criterion of Cadenza as transformers' StoppingCriteria."""

    def __init__(self, name: "Name", tokenizer: Any = None, vocab_size: int = _IDS, **parameters: Any) -> None:
        reference = _reference(name)
        self.name, self.reference, self.parameters = os.fspath(name), reference, parameters
        self._rules = _Rules(f"[pipeline]\nstopping = {_word(reference)}\n", reference, {"eos_token_id": None, **parameters}, tokenizer)
        self._vocab = vocab_size

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        ids = _ids(input_ids)
        self._rules.open(self._vocab)
        done = self._rules.test(ids)
        if arrays.is_torch(input_ids):
            import torch

            return torch.tensor(done, dtype=torch.bool, device=input_ids.device)
        import numpy

        return numpy.array(done)

    def compile(self) -> None:
        """As a processor's."""
        self._rules.open(_SOME)

    def __repr__(self) -> str:
        return f"<cadenza criterion {self.name}>"


def processor(name: "Name", *, tokenizer: Any = None, **parameters: Any) -> CadenzaProcessor:
    """Any processor of Cadenza for ``generate(logits_processor=[...])`` of transformers, and of this package.

    name: an id ("dry"), or a Lua file. tokenizer: a folder with tokenizer.json, or a tokenizer opened from one, for plugins that
    read texts. parameters: the plugin's, and generation parameters that it reads (eos_token_id, max_length).
    Called with ids (rows, length) and scores (rows, vocabulary), it returns new scores. The ids of the first call are the
    prompt; rows that do not begin with it, or the prompt again, begin the next generation.
    CadenzaError: no such plugin or parameter, or the plugin needs passes of a model (guidance_scale).
    """
    return CadenzaProcessor(name, tokenizer, **parameters)


def criterion(name: "Name", *, tokenizer: Any = None, vocab_size: int = _IDS, **parameters: Any) -> CadenzaCriterion:
    """Any stopping criterion of Cadenza for ``generate(stopping_criteria=[...])``; see :func:`processor`.

    Called with ids (rows, length), the newest token among them, it returns bools (rows,).
    """
    return CadenzaCriterion(name, tokenizer, vocab_size, **parameters)


def native_part(runtime: _core.Runtime, line: str, plugin: "Union[CadenzaProcessor, CadenzaCriterion]") -> tuple[Part, dict[str, Any]]:
    """Such an object as a plugin of a pipeline, and the generation parameters that it came with: in this package's own generate() the
    engine runs it, not Python."""
    own = _declared(runtime).get(plugin.reference)
    section, others = "", {}
    for name, value in plugin.parameters.items():
        if _is_requests(name, own):
            others[name] = arrays.plain(value)
        else:
            section += f"{name} = {_value(name, value)}\n"
    return Part(line, plugin.reference, section), others


# -- passes of a transformers model ----------------------------------------------------------------------------------


class _Passes:
    """A transformers model's forward pass, as the library asks for it: whole sequences come, and what the last pass has read of
    them is not read again."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.cache: Any = None
        self.read: list[list[int]] = []  # ids that the cache holds, rows of one length
        self.error: Optional[BaseException] = None

    def forget(self) -> None:
        self.cache, self.read = None, []

    def run(self, rows: Any, n: int) -> None:
        import torch

        sequences = [list(ffi.unpack(rows[r].ids, rows[r].n_ids)) for r in range(n)]
        wanted = [int(rows[r].n_scores) for r in range(n)]
        kept = self._resume(sequences, min(len(ids) - more for ids, more in zip(sequences, wanted)))
        longest = max(map(len, sequences))
        # Pads lie behind: no position before them sees them.
        new = torch.tensor([ids[kept:] + [0] * (longest - len(ids)) for ids in sequences], device=self.model.device)
        with torch.no_grad():
            out = self.model(input_ids=new, past_key_values=self.cache, use_cache=True)
        self._hand_over(out.logits, sequences, wanted, kept, rows)
        self.cache = out.past_key_values
        self._shorten(min(map(len, sequences)), sequences)

    def _resume(self, sequences: list[list[int]], most: int) -> int:
        """Brings the cache to what it has of all these sequences, at most so many tokens; how many."""
        places, kept = [], most
        for ids in sequences:
            lengths = [_common(ids, old) for old in self.read]
            best = max(lengths, default=0)
            places.append(lengths.index(best) if lengths else 0)
            kept = min(kept, best)
        if kept <= 0 or self.cache is None:
            self.forget()
            return 0
        import torch

        try:
            if kept < len(self.read[0]):
                self.cache.crop(kept)
            if places != list(range(len(self.read))):
                self.cache.batch_select_indices(torch.tensor(places, device=self.model.device))
        except (AttributeError, ValueError, NotImplementedError):  # a cache that cannot go back
            self.forget()
            return 0
        return kept

    def _shorten(self, n: int, sequences: list[list[int]]) -> None:
        """Rows of one length stay, of what was read."""
        self.read = [ids[:n] for ids in sequences]
        if self.cache is None:
            return
        try:
            if any(len(ids) > n for ids in sequences):
                self.cache.crop(n)
        except (AttributeError, ValueError, NotImplementedError):
            self.forget()

    def _hand_over(self, logits: Any, sequences: list[list[int]], wanted: list[int], kept: int, rows: Any) -> None:
        width = logits.shape[-1]
        for r, (ids, n) in enumerate(zip(sequences, wanted)):
            end = len(ids) - kept
            values = logits[r, end - n : end].float().cpu().contiguous().numpy()
            for i in range(n):
                ffi.memmove(rows[r].scores[i], ffi.from_buffer(values[i]), 4 * width)


def _common(a: list[int], b: list[int]) -> int:
    if a[: len(b)] == b:
        return len(b)
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


_FAILED = b"the model's forward pass raised an exception"


@_core.callback("cdz_status(*)(void *, const cdz_function_row *, uint32_t, cdz_error *)", error=13)
def _forward(user: Any, rows: Any, n: int, err: Any) -> int:
    passes = ffi.from_handle(user)
    try:
        passes.run(rows, int(n))
        return 0
    except BaseException as error:  # noqa: B036 - raised again in the caller
        passes.error = error
        passes.forget()
        ffi.memmove(err.text, _FAILED, len(_FAILED))
        return 9


@_core.callback("cdz_status(*)(void *, const cdz_function_row *, uint32_t, cdz_error *)", error=13)
def _no_forward(user: Any, rows: Any, n: int, err: Any) -> int:
    return 13


class _Bare:
    """A model of the library that is a function."""

    def __init__(self, runtime: _core.Runtime, vocab: int, tokenizer: Optional[str], forward: Any = _no_forward,
                 passes: Optional[_Passes] = None, context: int = 0) -> None:  # fmt: skip
        self.keep = ffi.new_handle(passes) if passes is not None else ffi.NULL
        function = _core.new_struct("cdz_function_model", n_vocab=vocab, context=context)
        function.forward, function.user = forward, self.keep
        text = ffi.new("char[]", os.fsencode(tokenizer)) if tokenizer else ffi.NULL
        function.tokenizer = text
        out, err, lib = ffi.new("cdz_model **"), _core.new_error(), _core.library()
        _core.check(lib.cdz_model_of_function(runtime.pointer, function, out, err), err)
        self.pointer = out[0]
        self.free = _core.on_delete(self, lib.cdz_model_close, self.pointer)


class TransformersModel(Model):
    """A transformers model whose decode loops are Cadenza's: generate() as of any model of this package, but for hidden states,
    attentions, embeddings and encoders. Made by :func:`strategy`."""

    def __init__(self, model: Any, tokenizer: Any = None) -> None:
        config = model.config.get_text_config()
        if getattr(model.config, "is_encoder_decoder", False):
            raise UsageError("a model with an encoder: strategies run over decoders alone")
        runtime = _core.runtime(device="cpu")
        self._passes = _Passes(model)
        self._bare = _Bare(
            runtime, int(config.vocab_size), _folder_of(tokenizer) if tokenizer is not None else None, _forward, self._passes,
            int(getattr(config, "max_position_embeddings", 0) or 0),
        )  # fmt: skip
        self._runtime, self._pointer, self._free = runtime, self._bare.pointer, self._bare.free
        self.name_or_path = str(getattr(model, "name_or_path", "") or type(model).__name__)
        self.config = ModelConfig(**model.config.to_dict())
        self.generation_config = GenerationConfig()
        self._own: dict[str, Any] = {}
        self._info = {"layers": int(getattr(config, "num_hidden_layers", 0) or 0)}
        self._lock = threading.Lock()
        self._has_encoder = False
        self._vocab = int(config.vocab_size)
        self._custom = None
        self.training = False

    def _run(self, order: Order, streamer: Any) -> _core.Result:
        try:
            return super()._run(order, streamer)
        except CadenzaError:
            for each in (self, order.assistant):
                error = each._passes.error if isinstance(each, TransformersModel) else None
                if error is not None:
                    raise error from None
            raise
        finally:
            for each in (self, order.assistant):
                if isinstance(each, TransformersModel):
                    each._passes.error = None
                    each._passes.forget()


_models: "weakref.WeakKeyDictionary[Any, dict[str, TransformersModel]]" = weakref.WeakKeyDictionary()


def _model_of(model: Any, tokenizer: Any) -> Model:
    if isinstance(model, Model):
        return model
    opened = _models.setdefault(model, {})
    key = "" if tokenizer is None else _folder_of(tokenizer)
    if key not in opened:
        opened[key] = TransformersModel(_Weak(model), tokenizer)
    return opened[key]


class _Weak:
    """A model that its wrapper does not keep alive."""

    def __init__(self, model: Any) -> None:
        self._at = weakref.ref(model)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._at(), name)

    def __call__(self, **kwargs: Any) -> Any:
        model: Any = self._at()
        return model(**kwargs)


# -- strategies ------------------------------------------------------------------------------------------------------

# What of a prepared generation config is for the loop. Scores are edited by the processors that generate() prepared.
_LOOP = (
    "early_stopping do_sample num_beams length_penalty num_return_sequences use_cache eos_token_id pad_token_id bos_token_id "
    "num_beam_groups diversity_penalty prompt_lookup_num_tokens max_matching_ngram_size num_assistant_tokens "
    "num_assistant_tokens_schedule assistant_confidence_threshold assistant_lookbehind target_lookbehind output_scores output_logits "
    "return_dict_in_generate"
).split()


def _builtin_criterion(criterion: Any) -> bool:
    """Those that the loop has itself: its lengths and its ends."""
    kind = type(criterion)
    return kind.__module__.startswith("transformers.") and kind.__name__ in ("MaxLengthCriteria", "EosTokenCriteria")


class _There:
    """A callback that gets its tensors on the model's device."""

    def __init__(self, callback: Any, device: Any) -> None:
        self.callback, self.device = callback, device

    def __call__(self, ids: Any, scores: Any) -> Any:
        return self.callback(ids.to(self.device), scores if scores is None else scores.to(self.device))


def _moved(callbacks: Any, device: Any) -> list[Any]:
    return [each if str(device) == "cpu" else _There(each, device) for each in callbacks or ()]


def _loop_parameters(config: Any) -> dict[str, Any]:
    values = {name: getattr(config, name, None) for name in _LOOP}
    made = {name: arrays.plain(value) for name, value in values.items() if value is not None}
    made["max_length"] = config.max_length
    made["top_k"] = 0
    if not made.get("prompt_lookup_num_tokens"):
        for name in ("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"):
            made.pop(name, None)
    return made


def _as_theirs(answer: Any) -> Any:
    """The output object as transformers' class of the same name."""
    if arrays.is_torch(answer):
        return answer
    kinds = sys.modules["transformers"].generation
    fields = {name: value for name, value in answer.items() if name != "past_key_values"}
    return getattr(kinds, type(answer).__name__)(**fields)


def strategy(name: "Name" = "auto", *, assistant_model: Any = None, tokenizer: Any = None, **parameters: Any) -> Callable[..., Any]:
    """A decode loop of Cadenza as ``generate(custom_generate=...)`` of transformers: the model's forward pass, Cadenza's loop.

    name: "auto" (greedy, sampling or beams, by the config), the id of a strategy, or a Lua file. assistant_model: drafts for it, a
    transformers model or one of this package. tokenizer: as for :func:`processor`. parameters: the strategy's, and generation
    parameters. Processors and criteria that generate() prepared run as they are; the loop draws torch's numbers.
    The callable raises what they raise, UnsupportedError where a strategy needs hidden states, UsageError for a model with an encoder.
    """
    reference = _reference(name)
    runtime = _core.runtime(device="cpu")
    section, extra = _split(runtime, reference, parameters)
    loop = (f"strategy = {_word(reference)}\n" if reference != "auto" else "", section)

    def decode(model: Any, input_ids: Any, logits_processor: Any = None, stopping_criteria: Any = None,
               generation_config: Any = None, **kwargs: Any) -> Any:  # fmt: skip
        import torch

        wrapped = _model_of(model, tokenizer)
        asked = {**_loop_parameters(generation_config), **extra}
        repeats = max(asked.get("num_beams") or 1, asked.get("num_return_sequences") or 1)
        rows, mask = input_ids[::repeats], kwargs.get("attention_mask")
        order = Order(wrapped, rows, None, {
            **asked, "attention_mask": None if mask is None else mask[::repeats, : rows.shape[1]].long(),
            "seed": next_seed() if asked.get("do_sample") else None,
        })  # fmt: skip
        order.loop = loop
        order.take_callbacks(
            _moved(logits_processor, input_ids.device),
            _moved([each for each in stopping_criteria or () if not _builtin_criterion(each)], input_ids.device), None,
        )  # fmt: skip
        order.take_assistant(None if assistant_model is None else _model_of(assistant_model, None))
        wrapped._check()
        with torch.no_grad():
            return _as_theirs(order.answer(wrapped._run(order, None)))

    return decode
