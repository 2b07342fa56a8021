"""Models, and generate(): transformers' surface over the library.

generate() turns its arguments into one request document, waits for its end without the interpreter's lock, and makes
transformers' output of the result. Any number of threads may call it at once: the engine decodes their requests together.
"""

from __future__ import annotations

import copy
import difflib
import inspect
import json
import logging
import os
import pathlib
import queue
import re
import threading
import warnings
from typing import Any, Callable, Iterator, Optional, Sequence, Union

from . import _core, arrays, hub
from ._abi import ffi
from .cache import Cache, DynamicCache, EncoderDecoderCache
from .config import OUTPUT_FLAGS, PARAMETERS, GenerationConfig
from .errors import CadenzaError, NotFoundError, StateError, UnsupportedError, UsageError
from .outputs import (
    CausalLMOutputWithPast,
    GenerateBeamDecoderOnlyOutput,
    GenerateBeamEncoderDecoderOutput,
    GenerateDecoderOnlyOutput,
    GenerateEncoderDecoderOutput,
)
from .processors import (
    PREFIX,
    PROCESSORS,
    STEPS,
    Borrowed,
    Call,
    LogitsProcessorList,
    Part,
    PrefixConstrained,
    StoppingCriteriaList,
    criteria_part,
    in_callback,
)
from .sampling import next_seed
from .sequences import Sequence as TokenSequence

logger = logging.getLogger("cadenza")

__all__ = ["Model", "ModelConfig", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoConfig"]

WAIT_S = 0.05  # a wait's longest part: between two of them Python looks for signals
_TYPES = {"float32": "f32", "fp32": "f32", "f32": "f32", "auto": "", "float16": "f16", "bfloat16": "bf16"}
# What forward passes take there, and a request document's name for it.
_INPUTS = ("attention_mask", "decoder_input_ids", "decoder_attention_mask", "inputs_embeds", "past_key_values")
# Parameters of the library that are no GenerationConfig's: the reference's own defects too (docs/departures.md).
_OWN = ("quirks",)
_WITHOUT_EFFECT = ("synced_gpus", "token_type_ids", "logits_to_keep", "return_dict")


class ModelConfig:
    """config.json as attributes."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    @classmethod
    def from_pretrained(cls, name: Union[str, "os.PathLike[str]"], **kwargs: Any) -> "ModelConfig":
        path = hub.find_model(name)
        file = path / "config.json" if path.is_dir() else path
        if file.suffix == ".gguf" or not file.is_file():
            return cls()
        made = cls(**json.loads(file.read_text(encoding="utf-8")))
        for key, value in kwargs.items():
            setattr(made, key, value)
        return made

    def to_dict(self) -> dict[str, Any]:
        return copy.deepcopy(self.__dict__)

    def __getattr__(self, name: str) -> Any:
        if name == "is_encoder_decoder":
            return False
        raise AttributeError(f"config.json has no {name!r}")

    def __repr__(self) -> str:
        return f"ModelConfig {json.dumps(self.__dict__, indent=2, sort_keys=True, default=str)}"


AutoConfig = ModelConfig


def _weight_type(dtype: Any) -> None:
    """dtype says how activations are computed: float32 here, whatever the file's type."""
    if dtype is None:
        return
    name = str(dtype).rsplit(".", 1)[-1]
    if name not in _TYPES:
        raise UsageError(f"dtype {dtype}: expected float32, or float16, bfloat16 or auto for weights as they are stored")


class Model:
    """An open model. Freed when nothing refers to it any more; threads may share it."""

    def __init__(self, runtime: _core.Runtime, pointer: Any, path: pathlib.Path) -> None:
        self._runtime = runtime
        self._pointer = pointer
        self._free = _core.on_delete(self, _core.library().cdz_model_close, pointer)
        self.name_or_path = str(path)
        self.config = ModelConfig.from_pretrained(path)
        self.generation_config = self._own_config(path)
        self._own = self.generation_config.given()
        info = json.loads(_core.take_text(_core.library().cdz_model_info_json(pointer)))
        self._info: dict[str, Any] = info
        self._has_encoder = bool(_core.library().cdz_model_has_encoder(pointer))
        self._vocab = int(_core.library().cdz_model_vocab_size(pointer))
        self._custom: Optional[Callable[..., Any]] = None
        self._lock = threading.Lock()  # close() against _submit()
        self.training = False

    # -- opening ---------------------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: Union[str, "os.PathLike[str]"],
        *,
        dtype: Any = None,
        torch_dtype: Any = None,
        quantize: Optional[str] = None,
        activations: Optional[str] = None,
        head_screen: Optional[str] = None,
        device: Optional[str] = None,
        threads: Optional[int] = None,
        kv_cache: Optional[str] = None,
        precision: Optional[str] = None,
        determinism: Optional[str] = None,
        trust_remote_code: bool = False,
        revision: str = "main",
        cache_dir: Optional[str] = None,
        **kwargs: Any,
    ) -> "Model":
        """Opens a model: a folder, a GGUF file, or an id that the local hub cache has. Nothing is downloaded.

        dtype: taken; weights are computed with as they are stored, in float32 arithmetic. quantize: "q8_0", "q4_k", "int8" and
        the like. activations: "f32", "int8", "bf16", "bf16x1", "bf16x3". head_screen: "auto", "on", "off": a copy of the head that finds the best
        tokens. device: "cpu", "cuda", "cuda:1", "auto". threads: of the engine; models with the same device, threads, kv_cache,
        precision and determinism share an engine.
        Raises OSError for no such model, ValueError for an argument, CadenzaError for what the library refuses.
        """
        _weight_type(dtype if dtype is not None else torch_dtype)
        for name in ("device_map", "attn_implementation", "low_cpu_mem_usage", "local_files_only", "token", "use_safetensors",
                     "force_download", "subfolder", "max_memory", "offload_folder"):  # fmt: skip
            kwargs.pop(name, None)
        if kwargs:
            raise TypeError(f"from_pretrained: no arguments {sorted(kwargs)}")
        path = hub.find_model(pretrained_model_name_or_path, revision, cache_dir)
        options = _core.new_struct("cdz_model_options")
        keep = []
        for field, value in (("quantize", quantize), ("activations", activations), ("head_screen", head_screen)):
            if value is not None:
                keep.append(ffi.new("char[]", str(value).encode()))
                setattr(options, field, keep[-1])
        runtime = _core.runtime(
            n_threads=threads, device=device, kv_cache=kv_cache, precision=precision, determinism=determinism
        )
        out, err = ffi.new("cdz_model **"), _core.new_error()
        status = _core.library().cdz_model_open(runtime.pointer, os.fsencode(path), options, out, err)
        _core.check(status, err)
        model = cls(runtime, out[0], path)
        own = path / "custom_generate" / "generate.py"
        if trust_remote_code and path.is_dir() and own.is_file():
            from .custom import load_folder

            model._custom = load_folder(path, True)
        return model

    @staticmethod
    def _own_config(path: pathlib.Path) -> GenerationConfig:
        if path.is_dir() and (path / "generation_config.json").is_file():
            made: GenerationConfig = GenerationConfig.from_pretrained(path)
            return made
        if path.is_dir() and (path / "config.json").is_file():
            return GenerationConfig.from_model_config(json.loads((path / "config.json").read_text(encoding="utf-8")))
        return GenerationConfig()

    def close(self) -> None:
        """Frees the model now; later calls are a StateError."""
        with self._lock:
            self._free()
            self._pointer = None

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def info(self) -> dict[str, Any]:
        """What ``cadenza model info`` says."""
        return dict(self._info)

    @property
    def device(self) -> Any:
        """Where ids and answers are: the CPU, as torch's device if torch is imported."""
        import sys

        torch = sys.modules.get("torch")
        return torch.device("cpu") if torch is not None else "cpu"

    @property
    def dtype(self) -> Any:
        """What scores are: float32, as torch's if torch is imported."""
        import sys

        torch = sys.modules.get("torch")
        return torch.float32 if torch is not None else "float32"

    @property
    def main_input_name(self) -> str:
        return "input_ids"

    def get_input_embeddings(self) -> Any:
        """UnsupportedError: weights stay in the engine."""
        raise UnsupportedError(
            "get_input_embeddings: weights stay in the engine: give ids, or inputs_embeds of embeddings that you read from the "
            "model's file; generate(output_hidden_states=True) has those of a prompt in hidden_states[0][0]"
        )

    def get_output_embeddings(self) -> Any:
        """UnsupportedError: weights stay in the engine."""
        raise UnsupportedError(
            "get_output_embeddings: weights stay in the engine: model(input_ids).logits is what they make of the last hidden state"
        )

    @property
    def vocab_size(self) -> int:
        return self._vocab

    def _sliding(self) -> list[bool]:
        """Of each layer, whether it attends to a window: as config.json says."""
        config = self.config.__dict__
        kinds, n_layers = config.get("layer_types"), int(self._info["layers"])
        if isinstance(kinds, list) and len(kinds) == n_layers:
            return [kind in ("sliding_attention", "chunked_attention") for kind in kinds]
        windows = bool(config.get("sliding_window")) and config.get("use_sliding_window") is not False
        return [windows] * n_layers

    def num_parameters(self, only_trainable: bool = False, exclude_embeddings: bool = False) -> int:
        """Numbers in the weights. UnsupportedError: those without embeddings, or those that would be trained."""
        if only_trainable or exclude_embeddings:
            raise UnsupportedError("num_parameters: weights are counted whole here, and nothing is trained")
        return int(self._info["parameters"])

    def can_generate(self) -> bool:
        return True

    def eval(self) -> "Model":
        return self

    def to(self, *args: Any, **kwargs: Any) -> "Model":
        """Taken; the device is from_pretrained's."""
        return self

    def __repr__(self) -> str:
        return f"<cadenza model {self.name_or_path}>"

    def __reduce__(self) -> Any:
        raise UsageError("a model cannot be pickled or copied: open it again in the other process")

    def __deepcopy__(self, memo: Any) -> "Model":
        raise UsageError("a model cannot be copied: open it again")

    def _alive(self) -> None:
        """Refuses what is closed, or was forked."""
        self._runtime.check()
        if self._pointer is None:
            raise StateError("the model is closed")

    def _check(self) -> None:
        """Besides: what the engine's thread would wait for."""
        self._alive()
        if in_callback():
            raise StateError(
                "a callback runs on the engine's thread, which cannot wait for itself: call the model after generate() returns"
            )

    # -- generate --------------------------------------------------------------------------------------------

    def generate(
        self,
        inputs: Any = None,
        generation_config: Optional[GenerationConfig] = None,
        logits_processor: Optional[Sequence[Any]] = None,
        stopping_criteria: Optional[Sequence[Any]] = None,
        prefix_allowed_tokens_fn: Optional[Callable[[int, Any], Any]] = None,
        synced_gpus: Optional[bool] = None,
        assistant_model: Optional["Model"] = None,
        streamer: Any = None,
        negative_prompt_ids: Any = None,
        negative_prompt_attention_mask: Any = None,
        custom_generate: Any = None,
        **kwargs: Any,
    ) -> Any:
        """transformers' generate().

        inputs (or input_ids=): (rows, length) torch tensor, NumPy array, or lists of ids; the answer is of the same kind.
        kwargs: generation parameters, attention_mask (rows, length), decoder_input_ids, decoder_attention_mask, inputs_embeds
        (rows, length, width), past_key_values, tokenizer, assistant_tokenizer, seed, trust_remote_code; pipeline: an ini file that
        the request goes on from; drafter: a :class:`Drafter`, a function, or a plugin's id; observers: a list of :class:`Observer` or ids.
        Returns ids (rows * num_return_sequences, length), or an output object with return_dict_in_generate.
        Raises ValueError for wrong arguments; what a callback raises; KeyboardInterrupt after the request has ended.
        """
        if custom_generate is None and self._custom is not None and not kwargs.get("_inside_custom"):
            custom_generate = self._custom
        kwargs.pop("_inside_custom", None)
        script, custom_generate = _script_of(custom_generate)
        if custom_generate is not None:
            from .custom import run_custom

            return run_custom(self, custom_generate, dict(
                inputs=inputs, generation_config=generation_config, logits_processor=logits_processor,
                stopping_criteria=stopping_criteria, prefix_allowed_tokens_fn=prefix_allowed_tokens_fn,
                assistant_model=assistant_model, streamer=streamer, negative_prompt_ids=negative_prompt_ids,
                negative_prompt_attention_mask=negative_prompt_attention_mask, **kwargs,
            ))  # fmt: skip
        self._check()
        kwargs.pop("trust_remote_code", None)
        order = Order(self, inputs, generation_config, kwargs)
        if script is not None:
            order.loop = ("strategy = loop\n", f"[loop]\nid = lua:{script}\n")
        order.take_callbacks(logits_processor, stopping_criteria, prefix_allowed_tokens_fn)
        order.take_negative(negative_prompt_ids, negative_prompt_attention_mask)
        order.take_assistant(assistant_model)
        if streamer is not None:
            order.check_streamer()
            streamer.put(order.for_streamer())
            if order.beams():  # sampled beams: transformers' streamer gets the prompt alone, and no end
                streamer = None
        result = self._run(order, streamer)
        if streamer is not None:
            streamer.end()
        return order.answer(result)

    __call_generate__ = generate

    def _run(self, order: "Order", streamer: Any) -> _core.Result:
        runtime, call, parts = self._runtime, order.callbacks, order.parts()
        borrowed = Borrowed(runtime, parts, order.loop, order.use) if parts or any(order.loop) or order.use else None
        identity, err = ffi.new("uint64_t *"), _core.new_error()
        try:
            pump = _Pump(order, streamer) if streamer is not None else None
            request = order.request(borrowed.pointer if borrowed else ffi.NULL, pump)
            try:
                self._submit(request, identity)
                status, result = self._wait(int(identity[0]), err, pump)
            except BaseException:
                self._abandon(int(identity[0]))
                raise
        finally:
            if borrowed:
                borrowed.give_back()
        if call and call.error:
            try:
                raise call.error
            finally:
                call.error = None  # its frames hold this one
        _core.check(status, err)
        assert result is not None
        order.keep_schedule(result)
        order.warn(result)
        return result

    def _submit(self, request: Any, identity: Any) -> None:
        """Orders a request. StateError: the model was closed in the meantime, by a streamer or another thread."""
        err = _core.new_error()
        with self._lock:
            self._alive()
            request.model = self._pointer
            _core.check(_core.library().cdz_submit(self._runtime.pointer, request, identity, err), err)

    def _wait(self, identity: int, err: Any, pump: Optional["_Pump"] = None) -> tuple[int, Optional[_core.Result]]:
        """(status, result or None) of a request, taken."""
        lib, out = _core.library(), ffi.new("cdz_result **")
        while True:
            slice_s = WAIT_S
            if pump is not None:
                pump.drain(WAIT_S)
                slice_s = 0.0
            status = lib.cdz_get_result(self._runtime.pointer, identity, slice_s, ffi.NULL, out, err)
            if status != 10 or out[0]:
                result = _core.Result(out[0]) if out[0] else None
                if pump is not None:
                    pump.finish()  # which may raise: the result is freed all the same
                return int(status), result

    def _abandon(self, identity: int) -> None:
        """Ends a request that nobody waits for any more, and drops its result: a second Ctrl-C changes nothing."""
        lib, out = _core.library(), ffi.new("cdz_result **")
        while identity:
            try:
                lib.cdz_cancel(self._runtime.pointer, identity, ffi.NULL)
                lib.cdz_wait(self._runtime.pointer, identity, out, ffi.NULL)
                lib.cdz_result_free(out[0])
                return
            except KeyboardInterrupt:
                continue

    def compute_transition_scores(
        self, sequences: Any, scores: Sequence[Any], beam_indices: Any = None, normalize_logits: bool = False
    ) -> Any:
        """The score of each generated token, (rows, steps) float32, of scores as generate() returns them or made by hand.

        sequences: (rows, length). scores: a step each, (R, vocabulary). beam_indices: (rows, new tokens), of beam search.
        """
        import numpy

        if not isinstance(scores, (tuple, list)):
            raise UsageError(f"scores: expected a tuple of arrays, one a step, found {type(scores).__name__}")
        kind, device = arrays.kind_of(scores[0]) if scores else arrays.LIST, arrays.device_of(scores[0]) if scores else None
        ids = numpy.array(arrays.rows(sequences, "sequences"), dtype=numpy.int64)
        steps = [arrays.floats(score, f"scores[{i}]") for i, score in enumerate(scores)]
        for i, step in enumerate(steps):
            if step.ndim != 2 or step.shape != steps[0].shape:
                raise UsageError(f"scores[{i}]: expected (rows, vocabulary) as scores[0] {steps[0].shape}, found {step.shape}")
        transition = _core.new_struct("cdz_transition")
        keep: list[Any] = [ffi.from_buffer("int64_t[]", ids)]
        transition.n_rows, transition.len = ids.shape
        transition.sequences = keep[0]
        transition.n_steps = len(steps)
        if steps:
            transition.n_score_rows, transition.n_vocab = steps[0].shape
        keep.append([ffi.from_buffer("float[]", step) for step in steps])
        keep.append(ffi.new("const float *[]", keep[-1] or [ffi.NULL]))
        transition.scores = keep[-1]
        if beam_indices is not None:
            indices = numpy.ascontiguousarray(
                beam_indices.tolist() if hasattr(beam_indices, "tolist") else beam_indices, dtype=numpy.int32
            )
            keep.append(ffi.from_buffer("int32_t[]", indices))
            transition.beam_indices, transition.n_columns = keep[-1], indices.shape[-1]
        transition.normalize = normalize_logits
        out = numpy.empty(ids.shape[0] * max(len(steps), 1), numpy.float32)
        columns, err = ffi.new("uint32_t *"), _core.new_error()
        status = _core.library().cdz_transition_scores(transition, ffi.from_buffer("float[]", out), columns, err)
        _core.check(status, err)
        return arrays.like(out[: ids.shape[0] * columns[0]].reshape(ids.shape[0], columns[0]), kind, device)

    # -- forward ---------------------------------------------------------------------------------------------

    def __call__(self, input_ids: Any = None, attention_mask: Any = None, past_key_values: Optional[Cache] = None,
                 use_cache: bool = True, logits_to_keep: int = 0, **kwargs: Any) -> CausalLMOutputWithPast:  # fmt: skip
        """A forward pass: logits (rows, positions, vocabulary) of the ids that the cache lacks, and the cache.

        input_ids: (rows, new ids), or all ids so far. past_key_values is filled, and returned as the same object.
        logits_to_keep=1 is the cheapest for several rows: they share one pass.
        """
        from .forward import forward_ids

        for name in ("position_ids", "cache_position", "token_type_ids", "return_dict"):
            kwargs.pop(name, None)
        unknown = [name for name, value in kwargs.items() if value is not None]
        if unknown:
            raise UnsupportedError(f"a forward pass here takes ids, mask and cache; {unknown} are not supported")
        return forward_ids(self, input_ids, attention_mask, past_key_values, use_cache, logits_to_keep)

    def sequence(self, ids: Any) -> TokenSequence:
        """A sequence of tokens to drive a loop with: fork(), truncate(), append()."""
        return TokenSequence(self, ids)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """``forward([sequences], positions="last")``: the logits of sequences, read in one pass; see :class:`Sequence`.
        With ids it is the model's call."""
        from .sequences import forward

        if args and (isinstance(args[0], TokenSequence) or (isinstance(args[0], (list, tuple)) and args[0] and isinstance(args[0][0], TokenSequence))):
            return forward(self, *args, **kwargs)
        return self(*args, **kwargs)

    # -- more ------------------------------------------------------------------------------------------------

    def score(self, texts: Any, tokenizer: Any = None) -> Any:
        """Log-probabilities of a text's tokens, each after those before it; the first is nan. A list of texts or of id lists
        gives a list."""
        from .forward import score_ids

        if isinstance(texts, str) or (texts and isinstance(texts[0], int)):
            return self.score([texts], tokenizer)[0]
        if texts and isinstance(texts[0], str):
            if tokenizer is None:
                from .tokenizer import Tokenizer

                tokenizer = Tokenizer(self)
            texts = [tokenizer.encode(text) for text in texts]
        return [score_ids(self, list(ids)) for ids in texts]

    def explain(self, pipeline: Union[str, "os.PathLike[str]", None] = None) -> str:
        """What ``cadenza explain`` prints: the chain of processors and where each value came from."""
        self._check()
        lib, err = _core.library(), _core.new_error()
        out, explained = ffi.new("cdz_pipeline **"), ffi.new("char **")
        file = ffi.NULL if pipeline is None else ffi.new("char[]", os.fsencode(pipeline))
        _core.check(lib.cdz_pipeline_load(self._runtime.pointer, file, out, err), err)
        try:
            _core.check(lib.cdz_pipeline_explain(out[0], self._pointer, explained, err), err)
            return _core.take_text(explained[0])
        finally:
            lib.cdz_pipeline_free(out[0])

    def generate_batch(self, inputs: Sequence[Any], generation_config: Optional[GenerationConfig] = None, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Answers to rows of ids of any lengths, decoded together: {"req_0": GenerationOutput, ...} in the order of inputs.

        Further arguments by place are transformers': q_padding_interval_size, kv_padding_interval_size, allow_block_sharing,
        record_timestamps, progress_bar, use_async_batching, max_cached_graphs. kwargs: parameters of generation too."""
        from .manager import generate_batch

        return generate_batch(self, inputs, generation_config, *args, **kwargs)

    def init_continuous_batching(
        self,
        generation_config: Optional[GenerationConfig] = None,
        manual_eviction: bool = False,
        max_queue_size: int = 0,
        q_padding_interval_size: int = 0,
        kv_padding_interval_size: int = 0,
        allow_block_sharing: bool = True,
        use_async_batching: Optional[bool] = None,
        max_cached_graphs: int = 0,
        **kwargs: Any,
    ) -> Any:
        """A manager that decodes requests as they come; see :class:`ContinuousBatchingManager`."""
        from .manager import ContinuousBatchingManager

        return ContinuousBatchingManager(
            self, generation_config, manual_eviction, max_queue_size, allow_block_sharing=allow_block_sharing, **kwargs
        )

    def continuous_batching_context_manager(self, generation_config: Optional[GenerationConfig] = None, *args: Any, **kwargs: Any) -> Any:
        """The same, started, and stopped at the end of a with statement.

        Further arguments by place: manual_eviction, max_queue_size, q_padding_interval_size, kv_padding_interval_size,
        allow_block_sharing, block, timeout, use_async_batching, max_cached_graphs."""
        from .manager import running

        return running(self, generation_config, *args, **kwargs)

    def stream(self, *args: Any, tokenizer: Any = None, **kwargs: Any) -> Iterator[str]:
        """Pieces of the answer's text as they come, of one row."""
        from .asynchronous import stream

        return stream(self, tokenizer, *args, **kwargs)

    def astream(self, *args: Any, tokenizer: Any = None, **kwargs: Any) -> Any:
        """The same as an async iterator, in any event loop."""
        from .asynchronous import astream

        return astream(self, tokenizer, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("_update_model_kwargs_for_generation", "_get_candidate_generator", "prepare_inputs_for_generation", "_sample"):
            raise AttributeError(
                f"Model has no {name}: it is transformers' private helper. Call model(input_ids, past_key_values=...) in a loop"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class AutoModelForCausalLM(Model):
    """Opens models: :meth:`Model.from_pretrained`."""


class AutoModelForSeq2SeqLM(Model):
    """The same, for models with an encoder."""


class Order:
    """One call of generate(): its arguments, checked; then the request made of them, and the answer."""

    def __init__(self, model: Model, inputs: Any, config: Optional[GenerationConfig], kwargs: dict[str, Any]) -> None:
        self.model = model
        self.kwargs = kwargs
        self.embeds: Any = None
        self.past: Optional[Cache] = None
        self.tokenizer = kwargs.pop("tokenizer", None)
        self.assistant_tokenizer = kwargs.pop("assistant_tokenizer", None)
        self.seed = kwargs.pop("seed", None)
        self.assistant: Optional[Model] = None
        self.callbacks: Optional[Call] = None
        self.prefix: Optional[PrefixConstrained] = None
        self.loop = ("", "")  # the strategy in a pipeline's words: its line, its section
        self.native: dict[int, Part] = {}  # by id() of the object in a list: a plugin of the library
        self.use = _pipeline_file(kwargs.pop("pipeline", None))
        self.drafter = kwargs.pop("drafter", None)
        self.observers = kwargs.pop("observers", None)
        self.mask: Optional[list[list[int]]] = None
        self.extra: dict[str, Any] = {}
        for name in _WITHOUT_EFFECT:
            kwargs.pop(name, None)
        self._take_ids(inputs)
        self._take_inputs()
        self._take_config(config)

    # -- arguments -------------------------------------------------------------------------------------------

    def _take_ids(self, inputs: Any) -> None:
        given = self.kwargs.pop("input_ids", None)
        if inputs is not None and given is not None:
            raise UsageError("both `inputs` and `input_ids` are given: give the ids once")
        inputs = given if inputs is None else inputs
        if hasattr(inputs, "keys") and "input_ids" in inputs:
            raise UsageError("`inputs` is a tokenizer's answer: call generate(**answer)")
        self.kind = arrays.kind_of(inputs) if inputs is not None else arrays.unasked_kind()
        self.device = arrays.device_of(inputs)
        self.ids = arrays.rows(inputs, "input_ids") if inputs is not None else None
        if self.ids is not None and not self.ids[0]:
            self.ids = None
        self._check_vocabulary()

    def _check_vocabulary(self) -> None:
        vocab = self.model._vocab
        for row in self.ids or ():
            for item in (min(row), max(row)):
                if not 0 <= item < vocab:
                    raise UsageError(f"input_ids: id {item} is not in the vocabulary of {vocab} tokens")

    def _take_inputs(self) -> None:
        kwargs = self.kwargs
        mask = kwargs.pop("attention_mask", None)
        embeds = kwargs.pop("inputs_embeds", None)
        past = kwargs.pop("past_key_values", None)
        for name in ("decoder_input_ids", "decoder_attention_mask"):
            value = kwargs.pop(name, None)
            if value is None:
                continue
            if not self.model._has_encoder:
                raise UsageError(f"`{name}` is for models with an encoder; this one has none")
            self.extra[name] = arrays.rows(value, name, mask=name.endswith("mask"))
            if self.ids is None and name == "decoder_input_ids":
                self.kind, self.device = arrays.kind_of(value), arrays.device_of(value)
        if embeds is not None:
            self._take_embeds(embeds)
        if past is not None:
            self._take_past(past)
        if mask is not None:
            self._take_mask(mask)

    def _take_embeds(self, embeds: Any) -> None:
        if self.model._has_encoder and self.ids is not None:
            raise UsageError("`inputs_embeds` and `input_ids` are both given to a model with an encoder: give one")
        if self.ids is None:
            self.kind, self.device = arrays.kind_of(embeds), arrays.device_of(embeds)
        self.embeds = arrays.floats(embeds, "inputs_embeds")
        width = int(_core.library().cdz_model_hidden_size(self.model._pointer))
        if self.embeds.ndim != 3 or self.embeds.shape[2] != width:
            raise UsageError(f"inputs_embeds: expected (rows, length, {width}), found shape {self.embeds.shape}")

    def _take_past(self, past: Any) -> None:
        if isinstance(past, (tuple, list)):
            raise UsageError("past_key_values: tuples are no caches any more: give a Cache, as generate() returns it")
        if not isinstance(past, Cache):
            raise UsageError(f"past_key_values: expected a cadenza.Cache, found {type(past).__name__}")
        self.past = past
        if past._ids and self.ids is not None and len(self.ids[0]) <= past._length and len(self.ids) == len(past._ids):
            if any(row != old[: len(row)] for row, old in zip(self.ids, past._ids)):
                self.ids = [old[: past._length] + row for row, old in zip(self.ids, past._ids)]

    def _take_mask(self, mask: Any) -> None:
        made = arrays.rows(mask, "attention_mask", mask=True)
        if self.embeds is not None:
            shape = self.embeds.shape[:2]
        else:
            shape = (len(self.ids), len(self.ids[0])) if self.ids else None
        if shape is not None and (len(made), len(made[0])) != tuple(shape):
            raise UsageError(
                f"attention_mask has shape ({len(made)}, {len(made[0])}), the prompts have {tuple(shape)}: they must be equal"
            )
        self.mask = made

    def _take_config(self, config: Optional[GenerationConfig]) -> None:
        if config is not None and not isinstance(config, GenerationConfig):
            if not hasattr(config, "to_diff_dict"):
                raise AttributeError(f"generation_config: expected a GenerationConfig, found {type(config).__name__}")
            config = GenerationConfig.from_dict({k: v for k, v in config.to_diff_dict().items() if k != "transformers_version"})
        own = self.model.generation_config
        parameters: dict[str, Any] = {}
        for name, value in own.given().items():
            if self.model._own.get(name) != value:
                parameters[name] = value
        for name in self.model._own:
            if getattr(own, name, None) is None:
                parameters[name] = None
        if config is not None:
            parameters.update(config.given())
        unknown = []
        for name, value in self.kwargs.items():
            if name in PARAMETERS:
                _check_type(name, value)
                parameters[name] = value
            elif name in _OWN:
                self.extra[name] = value
            elif value is not None:
                unknown.append(name)
        if unknown:
            raise UsageError(_unused(unknown))
        self.parameters = {name: value for name, value in parameters.items() if name in PARAMETERS}
        if self.embeds is not None and not self.model._has_encoder:
            self.parameters["use_cache"] = True
        merged = {**self.model._own, **self.parameters}
        whole = GenerationConfig.__new__(GenerationConfig)
        whole.__dict__.update({name: merged.get(name) for name in PARAMETERS})
        whole._validate_values()
        self.get = merged.get
        for name in ("compile_config", "disable_compile", "low_memory", "constraints"):
            if self.parameters.pop(name, None) is not None and name == "constraints":
                raise UnsupportedError("constraints: give force_words_ids")
        self.return_dict = bool(self.get("return_dict_in_generate"))
        self.parameters.pop("return_dict_in_generate", None)
        if not self.return_dict:
            for name in OUTPUT_FLAGS:
                self.parameters.pop(name, None)
                if self.model._own.get(name):
                    self.parameters[name] = None
        if self.get("cache_implementation") is not None and self.past is not None:
            raise UsageError("past_key_values and cache_implementation: give one of them")
        if self.get("cache_implementation") == "paged":
            self.parameters.pop("cache_implementation")

    def take_callbacks(self, processors: Any, criteria: Any, prefix: Any) -> None:
        """Python's objects: lists of them, checked."""
        processors = _callables(processors, "logits_processor")
        criteria = _callables(criteria, "stopping_criteria")
        if prefix is not None:
            self.prefix = PrefixConstrained(prefix, self.get("num_beams") or 1)
            if self._has_chain():
                self.prefix, processors = None, [self.prefix, *processors]
        if self.prefix or processors or criteria or self.drafter is not None or self.observers:
            self.callbacks = Call(processors, criteria, self.kind)
        for line, given in (("processors", processors), ("stopping", criteria)):
            for plugin in given:
                if hasattr(plugin, "reference") and hasattr(plugin, "parameters"):
                    self._take_native(line, plugin)

    def _has_chain(self) -> bool:
        """Whether the pipeline's file may say the processors' order itself."""
        text = pathlib.Path(self.use).read_text(encoding="utf-8", errors="replace") if self.use else ""
        return re.search(r"^[ \t]*(chain|use)[ \t]*=", text, re.MULTILINE) is not None

    def _take_native(self, line: str, plugin: Any) -> None:
        from .transformers import native_part

        self.native[id(plugin)], others = native_part(self.model._runtime, line, plugin)
        for name, value in others.items():
            if self.parameters.get(name) not in (None, value):
                raise UsageError(f"{name}: {value!r} of {plugin!r}, and {self.parameters[name]!r} in the call")
            if name in PARAMETERS:
                self.parameters[name] = value
            else:
                self.extra[name] = value

    def parts(self) -> list[Part]:
        """The plugins of the request's own pipeline, Python's objects among them."""
        root = self.callbacks
        if root is None:
            return []
        made = self._processor_parts(root)
        if self.prefix is not None:
            made.insert(0, Part(PREFIX, PROCESSORS, "", Call([self.prefix], [], self.kind, root)))
        python = [each for each in root.criteria if id(each) not in self.native]
        if python:
            made.append(criteria_part(root if not self.native else Call([], python, self.kind, root)))
        made += [self.native[id(each)] for each in root.criteria if id(each) in self.native]
        if python and self.return_dict and self.get("output_scores") and not self.drafts():
            root.steps = []
            made.append(Part("observers", STEPS, "", root))
        made += self._watchers(root)
        self._check_lines(made)
        return made

    def _processor_parts(self, root: Call) -> list[Part]:
        """In their order: neighbours in Python are one plugin."""
        if not self.native:
            return [Part("processors", PROCESSORS, "", root)] if root.processors else []
        made: list[Part] = []
        for each in root.processors:
            if id(each) in self.native:
                made.append(self.native[id(each)])
            elif made and made[-1].call is not None:
                made[-1].call.processors.append(each)
            else:
                made.append(Part("processors", PROCESSORS, "", Call([each], [], self.kind, root)))
        return made

    def _watchers(self, root: Call) -> list[Part]:
        from .transformers import _reference
        from .watchers import drafter_part, observer_parts

        made = []
        if isinstance(self.drafter, (str, os.PathLike)):
            made.append(Part("drafter", _reference(self.drafter)))
        elif self.drafter is not None:
            made.append(drafter_part(self.drafter, self.kind, root))
        given = self.observers or []
        if not isinstance(given, (list, tuple)):
            raise UsageError(f"observers: expected a list, found {type(given).__name__}")
        for each in given:
            named = isinstance(each, (str, os.PathLike))
            made += [Part("observers", _reference(each))] if named else observer_parts([each], self.kind, root)
        return made

    def _check_lines(self, parts: list[Part]) -> None:
        """What the call gives would replace a line of the pipeline's file: that is said, not done."""
        if not self.use or not parts:
            return
        text = pathlib.Path(self.use).read_text(encoding="utf-8", errors="replace")
        for line in {part.line for part in parts}:
            if re.search(rf"^[ \t]*{line}[ \t]*=", text, re.MULTILINE):
                raise UsageError(f"{self.use} has {line} of its own, and the call gives others: name them in the file, or in the call alone")

    def take_negative(self, ids: Any, mask: Any) -> None:
        if ids is not None:
            self.extra["negative_prompt_ids"] = arrays.rows(ids, "negative_prompt_ids")
        if mask is not None:
            self.extra["negative_prompt_attention_mask"] = arrays.rows(mask, "negative_prompt_attention_mask", mask=True)

    def take_assistant(self, assistant: Any) -> None:
        if assistant is None:
            return
        if not isinstance(assistant, Model):
            raise UsageError(f"assistant_model: expected a cadenza model, found {type(assistant).__name__}")
        assistant._check()
        if assistant._runtime is not self.model._runtime:
            raise UsageError("assistant_model was opened with other threads or on another device: open both alike")
        both = self.tokenizer is not None and self.assistant_tokenizer is not None
        if assistant._vocab == self.model._vocab and self.assistant_tokenizer is not None:
            raise UsageError("`assistant_tokenizer` is for models of different vocabularies; these have the same size: leave it out")
        if assistant._vocab != self.model._vocab and not both:
            raise UsageError("the models have different vocabularies: give `tokenizer` and `assistant_tokenizer`")
        for name in ("tokenizer", "assistant_tokenizer") if self.assistant_tokenizer is not None else ():
            if not hasattr(getattr(self, name), "decode"):
                raise UsageError(f"{name}: expected a tokenizer, found {type(getattr(self, name)).__name__}")
        self.assistant = assistant

    # -- the request -----------------------------------------------------------------------------------------

    def document(self) -> str:
        made: dict[str, Any] = {}
        if self.ids is not None:
            made["prompt_ids"] = self.ids
        if self.mask is not None:
            made["attention_mask"] = self.mask
        kwargs = {name: _parameter(name, value) for name, value in self.parameters.items()}
        kwargs.update(self.extra)
        made["kwargs"] = kwargs
        if self.get("do_sample"):
            seed = self.seed if self.seed is not None else next_seed()
            if seed is not None:
                made["seed"] = seed
        if self.assistant is not None:
            config = self.assistant.generation_config
            changed = {k: arrays.plain(v) for k, v in config.given().items() if self.assistant._own.get(k) != v}
            made["assistant"] = {"model": self.assistant.name_or_path, "generation_config": changed}
        try:
            return json.dumps(made, default=_refuse)
        except RecursionError:
            raise UsageError("a parameter holds itself") from None

    def request(self, pipeline: Any, pump: Optional["_Pump"]) -> Any:
        request = _core.new_struct("cdz_request", pipeline=pipeline)
        self.keep: list[Any] = [ffi.new("char[]", self.document().encode())]
        request.json = self.keep[0]
        if self.assistant is not None:
            request.assistant = self.assistant._pointer
        if self.embeds is not None:
            self.keep.append(ffi.from_buffer("float[]", self.embeds))
            request.embeds = self.keep[-1]
            request.n_embed_rows, request.n_embeds = self.embeds.shape[:2]
        if self.past is not None and self.past._result is not None:
            self.keep.append(self.past._result)
            request.past = self.past._result.pointer
        request.keep_cache = self.past is not None or (self.return_dict and self.get("use_cache") is not False)
        if pump is not None:
            request.on_event, request.user = _on_event, pump.handle
        return request

    def prompt_rows(self) -> list[list[int]]:
        """The rows that sequences begin with, before they are repeated."""
        if self.model._has_encoder:
            return self._decoder_rows()
        if self.ids is not None:
            return self.ids
        return [[]] * len(self.embeds) if self.embeds is not None else [[self.get("bos_token_id") or 0]]

    def _decoder_rows(self) -> list[list[int]]:
        """What a decoder begins with: its start token, and decoder_input_ids behind it, unless some row has it already."""
        start = self.get("decoder_start_token_id")
        start = getattr(self.model.config, "decoder_start_token_id", None) if start is None else start
        start = self.get("bos_token_id") or 0 if start is None else start
        given = self.extra.get("decoder_input_ids")
        n = len(given or self.ids or (self.embeds if self.embeds is not None else [[]]))
        starts = [int(token) for token in start] if isinstance(start, (list, tuple)) else [int(start)] * n
        rows = given or [[]] * n
        if any(row[:1] == [token] for row, token in zip(rows, starts)):
            return list(rows)
        return [[token, *row] for row, token in zip(rows, starts)]

    def check_streamer(self) -> None:
        if self.beams() and not self.get("do_sample"):
            raise UsageError("`streamer` cannot be used with beam search (yet!). Make sure that `num_beams` is set to 1.")

    def for_streamer(self) -> Any:
        """The prompt as a streamer gets it."""
        repeats = max(self.get("num_beams") or 1, self.get("num_return_sequences") or 1)
        return arrays.ids_like([row for row in self.prompt_rows() for _ in range(repeats)], self.stream_kind(), None)

    def beams(self) -> bool:
        return (self.get("num_beams") or 1) > 1

    def drafts(self) -> bool:
        """Whether tokens come of drafts: streamers get those as (1, 1)."""
        asked = self.get("prompt_lookup_num_tokens") or self.get("assistant_early_exit")
        return bool(asked) or self.assistant is not None or self.drafter is not None

    def stream_kind(self) -> str:
        return self.kind if self.kind != arrays.LIST else arrays.NUMPY

    # -- the answer ------------------------------------------------------------------------------------------

    def keep_schedule(self, result: _core.Result) -> None:
        """The heuristic schedule's drafts begin the next call as long as they ended this one."""
        if self.assistant is None or self.assistant.generation_config.num_assistant_tokens_schedule != "heuristic":
            return
        length = result.tensors().get("num_assistant_tokens")
        if length is not None:
            self.assistant.generation_config.num_assistant_tokens = int(result.array(length))

    def warn(self, result: _core.Result) -> None:
        full = int(_core.library().cdz_result_context_full(result.pointer))
        if full:
            logger.warning("the model's context of %d tokens is full: rows ended there", full)
        if self.get("max_length") is None and self.get("max_new_tokens") is None and not self.use:
            warnings.warn(
                "neither max_new_tokens nor max_length is set: 20 new tokens. max_new_tokens controls the length.",
                UserWarning,
                stacklevel=4,
            )

        for name, off in (("encoder_repetition_penalty", (None, 1.0)), ("encoder_no_repeat_ngram_size", (None, 0))):
            if self.embeds is not None and self.get(name) not in off:
                warnings.warn(f"`{name}` needs ids as the prompt, and it has embeddings: it does nothing.", UserWarning, stacklevel=4)
        self._warn_of_lengths()

    def _warn_of_lengths(self) -> None:
        """A least length that the greatest does not allow."""
        prompt = max(1, len(self.prompt_rows()[0]))
        new = self.get("max_new_tokens")
        most = prompt + new if new is not None else self.get("max_length") or prompt + 20
        for name, before in (("min_length", 0), ("min_new_tokens", prompt)):
            least = self.get(name)
            if name == "min_length" and self.get("min_new_tokens") is not None:
                continue  # which wins
            if least is not None and least + before > most:
                warnings.warn(
                    f"Unfeasible length constraints: `{name}` ({least}) with a prompt of {prompt} tokens is larger than the maximum "
                    f"possible length ({most}). Generation will stop at the defined maximum length.",
                    UserWarning,
                    stacklevel=5,
                )

    def sequences(self, result: _core.Result) -> list[list[int]]:
        rows = [result.sequence(row) for row in range(result.rows())]
        longest = max((len(row) for row in rows), default=0)
        pad = self.get("pad_token_id")
        return [row + [int(pad) if pad else 0] * (longest - len(row)) for row in rows]

    def answer(self, result: _core.Result) -> Any:
        rows = self.sequences(result)
        cache = self._cache(result, rows)
        ids = arrays.ids_like(rows, self.kind, self.device)
        if not self.return_dict:
            return ids
        return self._output(result, ids, cache)

    def _cache(self, result: _core.Result, rows: list[list[int]]) -> Optional[Cache]:
        if self.get("use_cache") is False:
            return None
        if self.past is None and not self.return_dict:
            return None
        cache = self.past
        if cache is None:
            cache = EncoderDecoderCache() if self.model._has_encoder else DynamicCache()
        alone = self.embeds is not None and self.ids is None and not self.model._has_encoder
        length = max((len(row) for row in rows), default=1) - 1 + (self.embeds.shape[1] if alone else 0)
        if (self.get("num_beams") or 1) > 1:
            tensors = result.tensors()
            if "n_steps" in tensors and "beam_indices" in tensors:  # its rows are the last running beams
                length += int(result.array(tensors["n_steps"]).reshape(-1)[0]) - int(tensors["beam_indices"][1][1])
        cache._fill(result, rows, length, self.model._sliding())
        return cache

    def _array(self, result: _core.Result, tensor: Any) -> Any:
        return arrays.like(result.array(tensor), self.kind, self.device)

    def _output(self, result: _core.Result, ids: Any, cache: Optional[Cache]) -> Any:
        tensors = result.tensors()
        beams = (self.get("num_beams") or 1) > 1
        fields: dict[str, Any] = {"sequences": ids, "past_key_values": cache}
        for name in ("scores", "logits"):
            if self.get("output_" + name):
                fields[name] = self._steps(result, tensors, name)
        kinds = (
            ("encoder_attentions", "encoder_hidden_states", "decoder_attentions", "cross_attentions", "decoder_hidden_states")
            if self.model._has_encoder
            else ("attentions", "hidden_states")
        )
        for name in kinds:
            flag = "output_attentions" if name.endswith("attentions") else "output_hidden_states"
            if self.get(flag):
                fields[name] = self._layers(result, tensors, name)
        if beams:
            self._beams(result, tensors, fields)
        kind: Any = GenerateBeamDecoderOnlyOutput if beams else GenerateDecoderOnlyOutput
        if self.model._has_encoder:
            kind = GenerateBeamEncoderDecoderOutput if beams else GenerateEncoderDecoderOutput
        made = kind(**fields)
        if "rounds" in tensors:  # (proposed, accepted) of each: no field there, so no item here
            made.rounds = [tuple(pair) for pair in result.array(tensors["rounds"]).tolist()]
        return made

    def _beams(self, result: _core.Result, tensors: dict[str, Any], fields: dict[str, Any]) -> None:
        if "beam_indices" in tensors:
            made = self._array(result, tensors["beam_indices"])
            fields["beam_indices"] = made.int() if arrays.is_torch(made) else made
        if self.get("output_scores") and "sequences_scores" in tensors:
            fields["sequences_scores"] = self._array(result, tensors["sequences_scores"])

    def _steps(self, result: _core.Result, tensors: dict[str, Any], name: str) -> tuple[Any, ...]:
        made: list[Any] = []
        while f"{name}/{len(made)}" in tensors:
            made.append(self._array(result, tensors[f"{name}/{len(made)}"]))
        return tuple(made)

    def _layers(self, result: _core.Result, tensors: dict[str, Any], name: str) -> tuple[Any, ...]:
        if name.startswith("encoder_"):
            return self._steps(result, tensors, name)
        steps: list[tuple[Any, ...]] = []
        while f"{name}/{len(steps)}/0" in tensors:
            steps.append(self._steps(result, tensors, f"{name}/{len(steps)}"))
        return tuple(steps)


# -- a request's tokens, for a streamer --------------------------------------------------------------------------


class _Pump:
    """Takes a request's events from the engine's thread to the streamer, which is called on the caller's."""

    def __init__(self, order: Order, streamer: Any) -> None:
        self.handle = ffi.new_handle(self)
        self.events: "queue.SimpleQueue[tuple[int, list[int]]]" = queue.SimpleQueue()
        self.streamer = streamer
        self.order = order
        self.n_rows = len(order.prompt_rows()) * (order.get("num_return_sequences") or 1)
        if order.model._has_encoder and order.ids is not None:
            self.n_rows = len(order.ids) * (order.get("num_return_sequences") or 1)
        self.step: dict[int, int] = {}
        self.seen: set[int] = set(range(self.n_rows))

    def drain(self, timeout: float) -> None:
        """Hands on what has come, after waiting for the first of it."""
        try:
            self._put(*self.events.get(timeout=timeout))
            while True:
                self._put(*self.events.get_nowait())
        except queue.Empty:
            return

    def finish(self) -> None:
        self.drain(0)
        self._flush()

    def _put(self, row: int, ids: list[int]) -> None:
        if self.n_rows == 1:
            made = arrays.ids_like([ids], self.order.stream_kind())
            self.streamer.put(made if self.order.drafts() else made[0])
            return
        for token in ids:
            if row in self.step:
                self._flush()
            self.step[row] = token

    def _flush(self) -> None:
        """One step of all rows: a row that has ended has pad."""
        if not self.step:
            return
        eos = self.order.get("eos_token_id")
        pad = self.order.get("pad_token_id")
        fill: Any = pad if pad is not None else (eos[0] if isinstance(eos, list) else eos) or 0
        row = [self.step.get(i, int(fill)) for i in range(self.n_rows)]
        self.step = {}
        self.streamer.put(arrays.ids_like([row], self.order.stream_kind())[0])


@_core.callback("void(*)(void *, const cdz_event *)")
def _on_event(user: Any, event: Any) -> None:
    if event.kind == 1 and event.n_ids:
        ffi.from_handle(user).events.put((int(event.row), list(ffi.unpack(event.ids, event.n_ids))))


# -- checks ------------------------------------------------------------------------------------------------------

_INTEGERS = set(
    "max_length max_new_tokens min_length min_new_tokens num_beams num_return_sequences top_k no_repeat_ngram_size "
    "encoder_no_repeat_ngram_size num_assistant_tokens prompt_lookup_num_tokens max_matching_ngram_size prefill_chunk_size".split()
)
_BOOLS = set("do_sample use_cache renormalize_logits remove_invalid_values token_healing return_dict_in_generate".split()) | set(OUTPUT_FLAGS)


def _check_type(name: str, value: Any) -> None:
    if value is None:
        return
    if name in _INTEGERS:
        if isinstance(value, bool) or not (isinstance(value, int) or arrays.is_numpy(value) or arrays.is_torch(value)):
            raise UsageError(f"{name}: expected an integer, found {value!r}")
        if name == "num_return_sequences" and value < 1:
            raise UsageError(f"num_return_sequences: expected at least 1, found {value}")
    elif name in _BOOLS and not isinstance(value, bool):
        raise UsageError(f"{name}: expected True or False, found {value!r}")


def _unused(names: list[str]) -> str:
    near = [difflib.get_close_matches(name, [*PARAMETERS, *_INPUTS], 1) for name in names]
    hints = [f"{name}: did you mean {close[0]}?" for name, close in zip(names, near) if close]
    return (
        f"The following `model_kwargs` are not used by the model: {names} (note: typos in the generate arguments will also "
        "show up in this list)" + ("; " + "; ".join(hints) if hints else "")
    )


def _script_of(custom: Any) -> tuple[Optional[str], Any]:
    """(a Lua file that is the decode loop, or None; any other custom_generate)"""
    if not isinstance(custom, (str, os.PathLike)) or not os.fspath(custom).endswith(".lua"):
        return None, custom
    path = os.path.abspath(os.path.expanduser(os.fspath(custom)))
    if not os.path.isfile(path):
        raise NotFoundError(f"custom_generate: no such file {path}")
    return path, None


def _pipeline_file(given: Any) -> str:
    """The file of pipeline=, "" without one."""
    if given is None:
        return ""
    if not isinstance(given, (str, os.PathLike)):
        raise UsageError(f"pipeline: expected an ini file, found {type(given).__name__}")
    path = os.path.abspath(os.path.expanduser(os.fspath(given)))
    if not os.path.isfile(path):
        raise NotFoundError(f"pipeline: no such file {path}")
    return path


def _callables(given: Any, name: str) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, (list, tuple)):
        raise UsageError(f"{name}: expected a list, found {type(given).__name__}")
    for item in given:
        if not callable(item):
            raise UsageError(f"{name}: {type(item).__name__} cannot be called")
        if name == "logits_processor" and not isinstance(item, type):
            _check_arguments(item)
    return list(given)


def _check_arguments(processor: Any) -> None:
    """A processor that needs a third argument would never get one."""
    try:
        names = list(inspect.signature(processor).parameters.values())
    except (TypeError, ValueError):
        return
    needed = [p for p in names if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(needed) > 2 and needed[2].default is needed[2].empty:
        raise UsageError(f"{type(processor).__name__} takes a third argument, {needed[2].name!r}, which generate() does not give")


def _parameter(name: str, value: Any) -> Any:
    if name == "sequence_bias" and isinstance(value, dict):
        if any(not isinstance(ids, tuple) for ids in value):
            raise UsageError(f"`sequence_bias` has to be a dict with tuples as keys, but is {value}.")
        return [[list(ids), bias] for ids, bias in value.items()]
    if hasattr(value, "to_dict"):
        made = value.to_dict()
        return {**made, "type": "synthid"} if "ngram_len" in made and "type" not in made else made
    return arrays.plain(value)


def _refuse(value: Any) -> Any:
    raise UsageError(f"a parameter holds {type(value).__name__}: expected numbers, strings, lists or dicts")
