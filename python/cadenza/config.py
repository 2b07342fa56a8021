"""GenerationConfig and what belongs to it, as transformers 5.3.0 has them.

Every parameter is None until it is set. A value of the call wins over the config that is given, which wins over the model's own,
which wins over the defaults; the library applies them.
"""

from __future__ import annotations

import copy
import enum
import json
import logging
import os
import pathlib
from typing import TYPE_CHECKING, Any, Optional, Union

__all__ = [
    "GenerationConfig",
    "GenerationMode",
    "BaseWatermarkingConfig",
    "WatermarkingConfig",
    "SynthIDTextWatermarkingConfig",
    "CompileConfig",
]

logger = logging.getLogger("cadenza")
TRANSFORMERS_VERSION = "5.3.0"

PARAMETERS = (
    "max_length max_new_tokens min_length min_new_tokens early_stopping max_time stop_strings do_sample num_beams use_cache "
    "cache_implementation cache_config temperature top_k top_p min_p top_h typical_p epsilon_cutoff eta_cutoff "
    "repetition_penalty encoder_repetition_penalty length_penalty no_repeat_ngram_size bad_words_ids renormalize_logits "
    "forced_bos_token_id forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens "
    "begin_suppress_tokens sequence_bias token_healing guidance_scale watermarking_config num_return_sequences "
    "output_attentions output_hidden_states output_scores output_logits return_dict_in_generate pad_token_id bos_token_id "
    "eos_token_id encoder_no_repeat_ngram_size decoder_start_token_id is_assistant num_assistant_tokens "
    "num_assistant_tokens_schedule assistant_confidence_threshold prompt_lookup_num_tokens max_matching_ngram_size "
    "assistant_early_exit assistant_lookbehind target_lookbehind compile_config disable_compile low_memory penalty_alpha "
    "dola_layers diversity_penalty num_beam_groups constraints force_words_ids prefill_chunk_size"
).split()

OUTPUT_FLAGS = ("output_attentions", "output_hidden_states", "output_scores", "output_logits")
# Of generate() alone.
_ARGUMENTS = (
    "logits_processor stopping_criteria prefix_allowed_tokens_fn synced_gpus assistant_model streamer negative_prompt_ids "
    "negative_prompt_attention_mask"
).split()
_CACHES = (
    "static offloaded_static dynamic dynamic_full offloaded quantized sliding_window hybrid hybrid_chunked "
    "offloaded_hybrid offloaded_hybrid_chunked paged"
).split()
DEFAULTS = {
    "max_length": 20, "min_length": 0, "do_sample": False, "use_cache": True, "early_stopping": False, "num_beams": 1,
    "temperature": 1.0, "top_k": 50, "top_p": 1.0, "typical_p": 1.0, "repetition_penalty": 1.0, "length_penalty": 1.0,
    "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "num_return_sequences": 1, "output_scores": False,
    "return_dict_in_generate": False, "remove_invalid_values": False, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0,
    "encoder_repetition_penalty": 1.0, "num_assistant_tokens": 20, "num_assistant_tokens_schedule": "constant",
    "assistant_confidence_threshold": 0.4, "assistant_lookbehind": 10, "target_lookbehind": 10, "num_beam_groups": 1,
    "diversity_penalty": 0.0,
}  # fmt: skip


class GenerationMode(str, enum.Enum):
    """The decode loop that a config asks for; equal to its string."""

    CONTRASTIVE_SEARCH = "contrastive_search"
    GREEDY_SEARCH = "greedy_search"
    SAMPLE = "sample"
    ASSISTED_GENERATION = "assisted_generation"
    DOLA_GENERATION = "dola_generation"
    BEAM_SEARCH = "beam_search"
    BEAM_SAMPLE = "beam_sample"
    CONSTRAINED_BEAM_SEARCH = "constrained_beam_search"
    GROUP_BEAM_SEARCH = "group_beam_search"


class BaseWatermarkingConfig:
    """What both kinds of watermarks share."""

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        return cls(**{**config_dict, **kwargs})

    def to_dict(self) -> dict[str, Any]:
        return copy.deepcopy(self.__dict__)

    def to_json_string(self) -> str:
        return json.dumps(self.__dict__, indent=2) + "\n"

    def update(self, **kwargs: Any) -> dict[str, Any]:
        """Sets the attributes it has; returns the others."""
        unused = {}
        for name, value in kwargs.items():
            if hasattr(self, name):
                setattr(self, name, value)
            else:
                unused[name] = value
        return unused

    def validate(self) -> None:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self.to_json_string())

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.to_json_string()}"


class WatermarkingConfig(BaseWatermarkingConfig):
    """A green-list watermark."""

    def __init__(
        self,
        greenlist_ratio: float = 0.25,
        bias: float = 2.0,
        hashing_key: int = 15485863,
        seeding_scheme: str = "lefthash",
        context_width: int = 1,
    ) -> None:
        self.greenlist_ratio = greenlist_ratio
        self.bias = bias
        self.hashing_key = hashing_key
        self.seeding_scheme = seeding_scheme
        self.context_width = context_width

    def validate(self) -> None:
        if self.seeding_scheme not in ("lefthash", "selfhash"):
            raise ValueError(f"seeding_scheme: expected lefthash or selfhash, found {self.seeding_scheme!r}")
        if not 0.0 <= self.greenlist_ratio <= 1.0:
            raise ValueError(f"greenlist_ratio: expected 0 to 1, found {self.greenlist_ratio}")
        if self.context_width < 1:
            raise ValueError(f"context_width: expected at least 1, found {self.context_width}")


class SynthIDTextWatermarkingConfig(BaseWatermarkingConfig):
    """SynthID's watermark."""

    def __init__(
        self,
        ngram_len: int,
        keys: list[int],
        context_history_size: int = 1024,
        sampling_table_seed: int = 0,
        sampling_table_size: int = 2**16,
        skip_first_ngram_calls: bool = False,
        debug_mode: bool = False,
    ) -> None:
        self.ngram_len = ngram_len
        self.keys = keys
        self.sampling_table_size = sampling_table_size
        self.sampling_table_seed = sampling_table_seed
        self.context_history_size = context_history_size
        self.skip_first_ngram_calls = skip_first_ngram_calls
        self.debug_mode = debug_mode

    def validate(self) -> None:
        if self.sampling_table_size > 2**24:
            raise ValueError(f"sampling_table_size: expected at most 2**24, found {self.sampling_table_size}")


class CompileConfig:
    """Taken and kept; nothing is compiled."""

    def __init__(self, **kwargs: Any) -> None:
        self.__dict__.update(kwargs)

    def to_dict(self) -> dict[str, Any]:
        return copy.deepcopy(self.__dict__)


class GenerationConfig:
    """The parameters of generate(), by transformers' names; unknown names are kept.

    Raises ValueError for values that cannot be (see :meth:`validate`).
    """

    extra_output_flags = OUTPUT_FLAGS

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __init__(self, **kwargs: Any) -> None:
        for name in PARAMETERS:
            setattr(self, name, kwargs.pop(name, None))
        watermark = self.__dict__["watermarking_config"]
        if isinstance(watermark, dict):
            self.watermarking_config: Any = _watermark(watermark)
        self._commit_hash = kwargs.pop("_commit_hash", None)
        self._from_model_config = kwargs.pop("_from_model_config", None)
        self.transformers_version = kwargs.pop("transformers_version", None)
        if not self._from_model_config:
            for name, value in kwargs.items():
                setattr(self, name, value)
        self.validate()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __hash__(self) -> int:
        return hash(self.to_json_string(ignore_metadata=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GenerationConfig) and self.to_json_string(
            use_diff=False, ignore_metadata=True
        ) == other.to_json_string(use_diff=False, ignore_metadata=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.to_json_string(ignore_metadata=True)}"

    def get_generation_mode(self, assistant_model: Any = None) -> GenerationMode:
        """The decode loop that these parameters ask for."""
        mode = self._base_mode()
        drafts = (
            assistant_model is not None
            or self.prompt_lookup_num_tokens is not None
            or self.assistant_early_exit is not None
        )
        for wanted, other in ((drafts, GenerationMode.ASSISTED_GENERATION), (self.dola_layers is not None, GenerationMode.DOLA_GENERATION)):
            if not wanted:
                continue
            if mode in (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE):
                mode = other
            else:
                logger.warning("%s works with greedy search and sampling; %s ignores its flags", other.value, mode.value)
        return mode

    def _base_mode(self) -> GenerationMode:
        if self.constraints is not None or self.force_words_ids is not None:
            return GenerationMode.CONSTRAINED_BEAM_SEARCH
        if self.num_beams is None or self.num_beams == 1:
            if self.do_sample is True:
                return GenerationMode.SAMPLE
            contrastive = (self.top_k or 0) > 1 and (self.penalty_alpha or 0) > 0
            return GenerationMode.CONTRASTIVE_SEARCH if contrastive else GenerationMode.GREEDY_SEARCH
        if (self.num_beam_groups or 1) > 1:
            return GenerationMode.GROUP_BEAM_SEARCH
        return GenerationMode.BEAM_SAMPLE if self.do_sample is True else GenerationMode.BEAM_SEARCH

    @staticmethod
    def _get_default_generation_params() -> dict[str, Any]:
        return dict(DEFAULTS)

    def validate(self, strict: bool = False) -> None:
        """Raises ValueError for what cannot be. A line is logged that names what would do nothing; with strict it is a
        ValueError too."""
        self._validate_values()
        idle = self._idle()
        if not idle:
            return
        if strict:
            lines = "".join(f"\n- {name}: {why}" for name, why in idle.items())
            raise ValueError("GenerationConfig is invalid:" + lines)
        logger.warning("The following generation flags may be ignored: %s", ", ".join(idle))

    def _validate_values(self) -> None:
        early = self.early_stopping
        if not (early is None or isinstance(early, bool) or early in (0, 1, "never")):
            raise ValueError(f"`early_stopping` must be a boolean or 'never', but is {early}.")
        if self.max_new_tokens is not None and self.max_new_tokens <= 0:
            raise ValueError(f"`max_new_tokens` must be greater than 0, but is {self.max_new_tokens}.")
        if self.cache_implementation is not None and self.cache_implementation not in _CACHES:
            raise ValueError(f"Invalid `cache_implementation` ({self.cache_implementation}). Choose one of: {_CACHES}")
        if self.compile_config is not None and not hasattr(self.compile_config, "to_dict"):
            raise ValueError(f"`compile_config` must be a CompileConfig, found {type(self.compile_config).__name__}")
        if self.watermarking_config is not None:
            if not hasattr(self.watermarking_config, "validate"):
                raise ValueError(f"`watermarking_config` must be a WatermarkingConfig, found {type(self.watermarking_config).__name__}")
            self.watermarking_config.validate()
        n = self.num_return_sequences
        if n is not None and n > 1:
            if self.num_beams is None or self.num_beams == 1:
                if not self.do_sample:
                    raise ValueError(
                        "Greedy methods (do_sample != True) without beam search do not support "
                        f"`num_return_sequences` different than 1 (got {n})."
                    )
            elif n > self.num_beams:
                raise ValueError(
                    f"`num_return_sequences` ({n}) has to be smaller or equal to `num_beams` ({self.num_beams})."
                )
        for name in _ARGUMENTS:
            if name in self.__dict__:
                raise ValueError(f"Argument `{name}` belongs to `generate()`, not to `GenerationConfig`.")

    def _idle(self) -> dict[str, str]:
        """Parameters that are set and would do nothing, and why."""
        idle = {}
        if self.pad_token_id is not None and self.pad_token_id < 0:
            idle["pad_token_id"] = f"expected a token, found {self.pad_token_id}"
        if self.do_sample is not True:
            usual = {"temperature": 1.0, "top_p": 1.0, "min_p": None, "top_h": None, "typical_p": 1.0, "top_k": 50,
                     "epsilon_cutoff": 0.0, "eta_cutoff": 0.0}  # fmt: skip
            for name, value in usual.items():
                if getattr(self, name) is not None and getattr(self, name) != value:
                    idle[name] = "is for sampling, and `do_sample` is not True"
        if self.num_beams is None or self.num_beams == 1:
            for name, usual_value in (("early_stopping", False), ("length_penalty", 1.0)):
                if getattr(self, name) not in (None, usual_value):
                    idle[name] = "is for beam search, and `num_beams` is 1"
        if self.use_cache is False:
            for name in ("cache_implementation", "cache_config"):
                if getattr(self, name) is not None:
                    idle[name] = "`use_cache` is False"
        if self.return_dict_in_generate is not True:
            for name in OUTPUT_FLAGS:
                if getattr(self, name) is True:
                    idle[name] = "`return_dict_in_generate` is not True"
        return idle

    # -- files -----------------------------------------------------------------------------------------------

    def save_pretrained(
        self,
        save_directory: Union[str, "os.PathLike[str]"],
        config_file_name: Optional[str] = None,
        push_to_hub: bool = False,
        **kwargs: Any,
    ) -> None:
        """Writes generation_config.json. ValueError: a value would do nothing, and nothing is written."""
        try:
            self.validate(strict=True)
        except ValueError as error:
            raise ValueError(f"{error}\n\nFix these issues to save the configuration.") from None
        if push_to_hub:
            raise ValueError("push_to_hub is not supported: nothing is uploaded")
        folder = pathlib.Path(save_directory)
        if folder.is_file():
            raise AssertionError(f"{folder} is a file, expected a folder")
        folder.mkdir(parents=True, exist_ok=True)
        self.to_json_file(folder / (config_file_name or "generation_config.json"))

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name: Union[str, "os.PathLike[str]"],
        config_file_name: Optional[str] = None,
        **kwargs: Any,
    ) -> Any:
        """Reads generation_config.json of a folder, of a model in the local hub cache, or a file. OSError: there is none, or
        it is no JSON."""
        from .hub import find_model

        subfolder = kwargs.pop("subfolder", "") or ""
        for name in ("cache_dir", "force_download", "local_files_only", "token", "revision", "proxies", "trust_remote_code"):
            kwargs.pop(name, None)
        path = find_model(pretrained_model_name) / subfolder
        if path.is_dir():
            path = path / (config_file_name or "generation_config.json")
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
        except (UnicodeDecodeError, json.JSONDecodeError):
            raise OSError(f"{path}: this is no valid JSON file") from None
        return cls.from_dict(found, **kwargs)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """With return_unused_kwargs: (config, names of kwargs that it did not take)."""
        both = kwargs.pop("return_unused_kwargs", False)
        config = cls(**{**config_dict, **kwargs})
        unused = config.update(**kwargs)
        return (config, unused) if both else config

    @classmethod
    def from_model_config(cls, model_config: Any) -> "GenerationConfig":
        """The generation parameters of a model's config: a dict, or an object with to_dict()."""
        given = dict(model_config if isinstance(model_config, dict) else model_config.to_dict())
        given.pop("_from_model_config", None)
        config: GenerationConfig = cls.from_dict(
            {name: value for name, value in given.items() if value is not None}, _from_model_config=True
        )
        inner = next((given[name] for name in ("decoder", "generator", "text_config") if given.get(name)), given)
        for name in PARAMETERS:
            if getattr(config, name) is None and inner.get(name) is not None:
                setattr(config, name, inner[name])
        if not config.return_dict_in_generate and any(getattr(config, flag) for flag in OUTPUT_FLAGS):
            config.return_dict_in_generate = True
        return config

    # -- dicts and JSON --------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Every attribute, None included."""
        made = copy.deepcopy(self.__dict__)
        made.pop("_commit_hash", None)
        made["transformers_version"] = TRANSFORMERS_VERSION
        return made

    def to_diff_dict(self) -> dict[str, Any]:
        """What is set."""
        usual = GenerationConfig().__dict__
        return {
            name: value
            for name, value in self.to_dict().items()
            if name == "transformers_version" or name not in usual or value != usual[name]
        }

    def to_json_string(
        self, use_diff: bool = True, ignore_metadata: bool = False, keys_to_pop: Optional[list[str]] = None
    ) -> str:
        """As JSON; keys of dicts become strings."""
        made = self.to_diff_dict() if use_diff else self.to_dict()
        for name in keys_to_pop or ():
            made.pop(name, None)
        if ignore_metadata:
            for name in ("_from_model_config", "_commit_hash", "_original_object_hash", "transformers_version"):
                made.pop(name, None)
        return json.dumps(_for_json(made), indent=2, sort_keys=True) + "\n"

    def to_json_file(
        self, json_file_path: Union[str, "os.PathLike[str]"], use_diff: bool = True, keys_to_pop: Optional[list[str]] = None
    ) -> None:
        with open(json_file_path, "w", encoding="utf-8") as file:
            file.write(self.to_json_string(use_diff=use_diff, keys_to_pop=keys_to_pop))

    def update(self, defaults_only: bool = False, allow_custom_entries: bool = False, **kwargs: Any) -> dict[str, Any]:
        """Sets the names that it has, and returns the others. defaults_only: those that are None alone."""
        unused = {}
        for name, value in kwargs.items():
            known = name in self.__dict__
            if (known and (not defaults_only or getattr(self, name) is None)) or (not known and allow_custom_entries):
                setattr(self, name, value)
            else:
                unused[name] = value
        self.validate()
        return unused

    def given(self) -> dict[str, Any]:
        """The parameters and further names that are not None: what a request is told of it."""
        return {
            name: value
            for name, value in self.__dict__.items()
            if value is not None and not name.startswith("_") and name != "transformers_version"
        }


def _watermark(given: dict[str, Any]) -> BaseWatermarkingConfig:
    if "ngram_len" in given:
        return SynthIDTextWatermarkingConfig(**given)
    made: BaseWatermarkingConfig = WatermarkingConfig.from_dict(given)
    return made


def _for_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _for_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_for_json(item) for item in value]
    return value.to_dict() if hasattr(value, "to_dict") else value
