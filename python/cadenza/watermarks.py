"""Watermarks by hand: transformers' processors that write them, and its detector."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _core, arrays
from ._abi import ffi
from .config import BaseWatermarkingConfig, SynthIDTextWatermarkingConfig, WatermarkingConfig
from .errors import UsageError
from .transformers import CadenzaProcessor, _Bare

__all__ = [
    "WatermarkLogitsProcessor",
    "SynthIDTextWatermarkLogitsProcessor",
    "WatermarkDetector",
    "WatermarkDetectorOutput",
]


def _cpu(device: Any) -> None:
    if str(device).split(":")[0] != "cpu":
        raise UsageError(f"device {device}: watermarks are computed on the CPU, whose random numbers they are made of")


class WatermarkLogitsProcessor(CadenzaProcessor):
    """Marks scores by green lists: ``(input_ids, scores) -> scores`` of vocab_size columns. As transformers' class of the name."""

    def __init__(self, vocab_size: int, device: Any = "cpu", greenlist_ratio: float = 0.25, bias: float = 2.0,
                 hashing_key: int = 15485863, seeding_scheme: str = "lefthash", context_width: int = 1) -> None:  # fmt: skip
        _cpu(device)
        if seeding_scheme not in ("selfhash", "lefthash"):
            raise ValueError(f"seeding_scheme has to be one of [`selfhash`, `lefthash`], found {seeding_scheme}")
        if not 0.0 < greenlist_ratio < 1.0:
            raise ValueError(f"greenlist_ratio has be in range between 0.0 and 1.0, exclusively. but found {greenlist_ratio}")
        self.vocab_size, self.greenlist_ratio, self.bias = vocab_size, greenlist_ratio, bias
        self.hash_key, self.seeding_scheme, self.context_width = hashing_key, seeding_scheme, context_width
        super().__init__("watermarking_config", greenlist_ratio=greenlist_ratio, bias=bias, hashing_key=hashing_key,
                         seeding_scheme=seeding_scheme, context_width=context_width)  # fmt: skip


class SynthIDTextWatermarkLogitsProcessor(CadenzaProcessor):
    """SynthID's tournament over scores. As transformers' class of the name."""

    def __init__(self, ngram_len: int, keys: list[int], sampling_table_size: int, sampling_table_seed: int,
                 context_history_size: int, device: Any = "cpu", skip_first_ngram_calls: bool = False,
                 debug_mode: bool = False) -> None:  # fmt: skip
        _cpu(device)
        self.ngram_len, self.keys = ngram_len, list(keys)
        super().__init__("watermarking_config", type="synthid", ngram_len=ngram_len, keys=self.keys,
                         sampling_table_size=sampling_table_size, sampling_table_seed=sampling_table_seed,
                         context_history_size=context_history_size, skip_first_ngram_calls=skip_first_ngram_calls,
                         debug_mode=debug_mode)  # fmt: skip


@dataclass
class WatermarkDetectorOutput:
    """What a detector found, an entry a row: NumPy arrays (rows,)."""

    num_tokens_scored: Any = None
    num_green_tokens: Any = None
    green_fraction: Any = None
    z_score: Any = None
    p_value: Any = None
    prediction: Any = None
    confidence: Any = None


class WatermarkDetector:
    """Looks for a green-list watermark: ``detector(input_ids, z_threshold=3.0, return_dict=False)``.

    model_config: has vocab_size and bos_token_id. watermarking_config: that of the generation, or a dict. Every window counts, as in
    transformers 5.3.0, where ignore_repeated_ngrams has no effect. The answer: (rows,) bools, or a WatermarkDetectorOutput.
    ValueError: the rows are too short.
    """

    def __init__(self, model_config: Any, device: Any = "cpu", watermarking_config: Union[BaseWatermarkingConfig, dict[str, Any], None] = None,
                 ignore_repeated_ngrams: bool = False, max_cache_size: int = 128) -> None:  # fmt: skip
        _cpu(device)
        given = watermarking_config if isinstance(watermarking_config, dict) else getattr(watermarking_config, "to_dict", dict)()
        if not given or "ngram_len" in given or isinstance(watermarking_config, SynthIDTextWatermarkingConfig):
            raise UsageError("watermarking_config: expected a WatermarkingConfig of green lists, or a dict of its values")
        known = WatermarkingConfig(**given)
        known.validate()
        self.context_width, self.greenlist_ratio = known.context_width, known.greenlist_ratio
        encoder = bool(getattr(model_config, "is_encoder_decoder", False))
        self.bos_token_id: Optional[int] = getattr(model_config, "decoder_start_token_id" if encoder else "bos_token_id", None)
        self._watermark = json.dumps({**known.to_dict(), "type": "greenlist"}).encode()
        self._model = _Bare(_core.runtime(device="cpu"), int(model_config.vocab_size), None)

    def __call__(self, input_ids: Any, z_threshold: float = 3.0, return_dict: bool = False) -> Any:
        import numpy

        rows = arrays.rows(input_ids, "input_ids")
        if rows[0] and rows[0][0] == self.bos_token_id:
            rows = [row[1:] for row in rows]
        if len(rows[0]) - self.context_width < 1:
            raise ValueError(
                f"Must have at least `1` token to score after the first min_prefix_len={self.context_width} tokens required by the "
                "seeding scheme."
            )
        found = [self._detect(row) for row in rows]

        def column(name: str) -> Any:
            return numpy.array([each[name] for each in found], numpy.float64)

        prediction = column("z_score") > z_threshold
        if not return_dict:
            return prediction
        names = ("num_tokens_scored", "num_green_tokens", "green_fraction", "z_score", "p_value")
        return WatermarkDetectorOutput(**{name: column(name) for name in names}, prediction=prediction, confidence=1 - column("p_value"))

    def _detect(self, row: list[int]) -> dict[str, float]:
        watermark, ids = ffi.new("char[]", self._watermark), ffi.new("int32_t[]", row)
        options = _core.new_struct("cdz_detect_options", watermark=watermark)
        out, err = ffi.new("char **"), _core.new_error()
        _core.check(_core.library().cdz_detect(self._model.pointer, options, ids, len(row), out, err), err)
        return {name: float(values[0]) for name, values in json.loads(_core.take_text(out[0])).items()}
