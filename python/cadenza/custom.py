"""custom_generate: a function that is the decode loop, or a folder with custom_generate/generate.py."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import itertools
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any, Callable, Union

from . import arrays
from .cache import DynamicCache
from .config import DEFAULTS, GenerationConfig
from .errors import UsageError

if TYPE_CHECKING:
    from .model import Model, Order


def load_folder(folder: Union[str, "os.PathLike[str]"], trust_remote_code: bool) -> Callable[..., Any]:
    """generate() of a folder. ValueError: without trust_remote_code; OSError: there is none; ImportError: requirements.txt
    names what is not installed."""
    from .hub import find_model

    path = find_model(folder)
    file = path / "custom_generate" / "generate.py"
    if not file.is_file():
        raise OSError(f"{path}: there is no custom_generate/generate.py")
    if not trust_remote_code:
        raise ValueError(f"{file} is Python code: it runs with trust_remote_code=True only; read it first")
    _check_requirements(file.with_name("requirements.txt"))
    package = f"cadenza_custom_{abs(hash(str(file.resolve())))}"
    spec = importlib.util.spec_from_file_location(
        package + ".generate", file, submodule_search_locations=None
    )
    assert spec is not None and spec.loader is not None
    root = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(package, None, is_package=True))
    root.__path__ = [str(file.parent)]
    sys.modules[package] = root
    module = importlib.util.module_from_spec(spec)
    sys.modules[package + ".generate"] = module
    spec.loader.exec_module(module)
    found = getattr(module, "generate", None)
    if not callable(found):
        raise OSError(f"{file}: it has no function generate")
    function: Callable[..., Any] = found
    return function


def _check_requirements(file: pathlib.Path) -> None:
    import importlib.metadata
    import re

    if not file.is_file():
        return
    missing = []
    for line in file.read_text(encoding="utf-8").splitlines():
        name = re.match(r"[A-Za-z0-9._-]+", line.split("#")[0].strip())
        if not name:
            continue
        try:
            importlib.metadata.version(name[0])
        except importlib.metadata.PackageNotFoundError:
            missing.append(line.strip())
    if missing:
        raise ImportError(f"{file} needs {', '.join(missing)}: pip install {' '.join(missing)}")


def run_custom(model: "Model", custom: Any, arguments: dict[str, Any]) -> Any:
    """What custom_generate makes of the call."""
    if not callable(custom):
        trust = bool(arguments.pop("trust_remote_code", False))
        return load_folder(custom, trust)(model=model, **_raw(arguments))
    if model._custom is not None and custom is model._custom:
        arguments.pop("trust_remote_code", None)
        return model._custom(model=model, **_raw(arguments))
    return _run_function(model, custom, arguments)


def _raw(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _run_function(model: "Model", function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Everything is prepared as for the built-in loops; then the function is the loop."""
    from .model import Order

    model._check()
    named = inspect.signature(function).parameters
    standard = ("model", "input_ids", "logits_processor", "stopping_criteria", "generation_config")
    own = {
        name: arguments.pop(name)
        for name in list(arguments)
        if name in named and name not in standard and named[name].kind is not inspect.Parameter.VAR_KEYWORD
        and name not in ("inputs", "prefix_allowed_tokens_fn", "negative_prompt_ids", "negative_prompt_attention_mask",
                         "assistant_model", "streamer")
    }  # fmt: skip
    inputs = arguments.pop("inputs", None)
    config = arguments.pop("generation_config", None)
    processors = arguments.pop("logits_processor", None)
    criteria = arguments.pop("stopping_criteria", None)
    prefix = arguments.pop("prefix_allowed_tokens_fn", None)
    for name in ("assistant_model", "streamer", "negative_prompt_ids", "negative_prompt_attention_mask", "trust_remote_code"):
        arguments.pop(name, None)
    order = Order(model, inputs, config, arguments)
    order.take_callbacks(processors, criteria, prefix)
    return _call(model, function, order, own)


def _call(model: "Model", function: Callable[..., Any], order: "Order", own: dict[str, Any]) -> Any:
    from .builtin import criteria_of, processors_of

    prompts = order.prompt_rows()
    repeats = max(order.get("num_beams") or 1, order.get("num_return_sequences") or 1)
    rows = [row for row in prompts for _ in range(repeats)]
    config = resolved(model, order, len(rows[0]))
    call = order.callbacks
    kind = order.kind if order.kind != arrays.LIST else arrays.NUMPY
    mask = [row for row in order.mask for _ in range(repeats)] if order.mask else _mask(rows, config)
    kwargs = {
        "attention_mask": arrays.ids_like(mask, kind, order.device),
        "use_cache": config.use_cache,
        "past_key_values": order.past if order.past is not None else DynamicCache(),
        "logits_to_keep": 1,
        **own,
    }
    if not model._has_encoder:
        kwargs["position_ids"] = arrays.ids_like([_positions(row) for row in mask], kind, order.device)
    ids = arrays.ids_like(rows, kind, order.device)
    return function(
        model,
        ids,
        logits_processor=processors_of(config, ids, call.processors if call else [], order.prefix),
        stopping_criteria=criteria_of(config, call.criteria if call else [], order.tokenizer or _tokenizer(model, config)),
        generation_config=config,
        **kwargs,
    )


def _tokenizer(model: "Model", config: GenerationConfig) -> Any:
    from .tokenizer import Tokenizer

    return Tokenizer(model) if config.stop_strings is not None else None


def _positions(mask: list[int]) -> list[int]:
    """Where each token stands among those of its row; pads are at 0."""
    return [(end - 1) * on for end, on in zip(itertools.accumulate(mask), mask)]


def _mask(rows: list[list[int]], config: GenerationConfig) -> list[list[int]]:
    pad, eos = config.pad_token_id, config.eos_token_id
    ends = eos if isinstance(eos, list) else [eos]
    if pad is None or pad in ends or not any(pad in row for row in rows):
        return [[1] * len(row) for row in rows]
    return [[int(token != pad) for token in row] for row in rows]


def resolved(model: "Model", order: "Order", prompt: int) -> GenerationConfig:
    """The call's config with defaults filled in; max_length counts the prompt."""
    values = {**DEFAULTS, **{k: v for k, v in model._own.items() if v is not None}}
    values.update({k: v for k, v in order.parameters.items()})
    values["return_dict_in_generate"] = order.return_dict
    for flag in ("output_scores", "output_logits", "output_attentions", "output_hidden_states"):
        values[flag] = bool(order.get(flag)) and order.return_dict
    given_length = order.get("max_length")
    config = GenerationConfig()
    config.__dict__.update(copy.deepcopy({k: v for k, v in values.items()}))
    if config.max_new_tokens is not None:
        config.max_length = prompt + config.max_new_tokens
    elif given_length is None:
        config.max_length = prompt + 20
    if config.min_new_tokens is not None:
        config.min_length = prompt + config.min_new_tokens
    if config.max_length <= prompt:
        raise UsageError(f"max_length {config.max_length}: the prompt has {prompt} tokens already")
    return config
