"""Cadenza: run language models with transformers' generate(), number for number, without torch.

    import cadenza
    model = cadenza.AutoModelForCausalLM.from_pretrained("models/pocket-dictionary")
    tokenizer = cadenza.AutoTokenizer.from_pretrained("models/pocket-dictionary")
    ids = tokenizer("river (noun):", return_tensors="np")
    print(tokenizer.decode(model.generate(**ids, max_new_tokens=20)[0]))

Names are loaded when they are first used: importing the package imports neither NumPy nor torch nor transformers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .arrays import kind_of as kind_of
    from .biases import *
    from .builtin import *
    from .cache import *
    from .config import *
    from .cuts import *
    from .errors import *
    from .forward import Score as Score
    from .forward import score as score
    from .manager import *
    from .model import *
    from .notebook import show as show
    from .outputs import *
    from .pipelines import *
    from .processors import *
    from .sampling import *
    from .sequences import Sequence as Sequence
    from .streamers import *
    from .tokenizer import *
    from .transformers import criterion as criterion
    from .transformers import processor as processor
    from .watchers import *

_WHERE = {
    "builtin": "LogitsWarper TemperatureLogitsWarper TopKLogitsWarper TopPLogitsWarper MinPLogitsWarper "
    "RepetitionPenaltyLogitsProcessor MinLengthLogitsProcessor MinNewTokensLengthLogitsProcessor "
    "SuppressTokensLogitsProcessor NoRepeatNGramLogitsProcessor InfNanRemoveLogitsProcessor LogitNormalization",
    "biases": "SequenceBiasLogitsProcessor NoBadWordsLogitsProcessor EncoderRepetitionPenaltyLogitsProcessor "
    "EncoderNoRepeatNGramLogitsProcessor PrefixConstrainedLogitsProcessor ForcedBOSTokenLogitsProcessor "
    "ForcedEOSTokenLogitsProcessor ExponentialDecayLengthPenalty SuppressTokensAtBeginLogitsProcessor StopStringCriteria "
    "ConfidenceCriteria",
    "cache": "Cache DynamicCache StaticCache EncoderDecoderCache",
    "config": "GenerationConfig GenerationMode BaseWatermarkingConfig WatermarkingConfig SynthIDTextWatermarkingConfig "
    "CompileConfig",
    "cuts": "TopHLogitsWarper TypicalLogitsWarper EpsilonLogitsWarper EtaLogitsWarper",
    "errors": "CadenzaError UsageError InputError FileError UnsupportedError LimitError OutOfMemoryError CancelledError "
    "DeadlineError PluginError StateError DeniedError NotFoundError InternalError ForkError",
    "forward": "Score score",
    "manager": "ContinuousBatchingManager GenerationOutput RequestStatus Scheduler FIFOScheduler PrefillFirstScheduler",
    "model": "Model ModelConfig AutoModelForCausalLM AutoModelForSeq2SeqLM AutoConfig",
    "notebook": "show",
    "outputs": "ModelOutput GenerateDecoderOnlyOutput GenerateBeamDecoderOnlyOutput GenerateEncoderDecoderOutput "
    "GenerateBeamEncoderDecoderOutput CausalLMOutputWithPast",
    "pipelines": "pipeline TextGenerationPipeline",
    "processors": "LogitsProcessor LogitsProcessorList StoppingCriteria StoppingCriteriaList MaxLengthCriteria "
    "MaxTimeCriteria EosTokenCriteria",
    "sampling": "Generator sample set_seed",
    "sequences": "Sequence",
    "streamers": "BaseStreamer TextStreamer TextIteratorStreamer AsyncTextIteratorStreamer",
    "tokenizer": "AutoTokenizer Tokenizer BatchEncoding",
    "transformers": "criterion processor",
    "watchers": "Drafter Observer",
}
_MODULES = ("jobs", "lm_eval", "ray", "transformers")
_NAMES = {name: module for module, names in _WHERE.items() for name in names.split()}
__all__ = sorted([*_NAMES, "__version__", "library_version"])


def library_version() -> str:
    """The version of libcadenza."""
    from . import _core

    return _core.version()


def load_ipython_extension(shell: Any) -> None:
    """%load_ext cadenza: the cell magic %%cadenza_lua."""
    from .notebook import load_ipython_extension as load

    load(shell)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module 'cadenza' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_MODULES})
