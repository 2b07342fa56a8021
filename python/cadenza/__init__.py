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
import sys
from typing import TYPE_CHECKING, Any, NoReturn

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
    from .watermarks import *

_WHERE = {
    "builtin": "LogitsWarper TemperatureLogitsWarper TopKLogitsWarper TopPLogitsWarper MinPLogitsWarper "
    "RepetitionPenaltyLogitsProcessor MinLengthLogitsProcessor MinNewTokensLengthLogitsProcessor "
    "SuppressTokensLogitsProcessor NoRepeatNGramLogitsProcessor InfNanRemoveLogitsProcessor LogitNormalization",
    "biases": "SequenceBiasLogitsProcessor NoBadWordsLogitsProcessor EncoderRepetitionPenaltyLogitsProcessor "
    "EncoderNoRepeatNGramLogitsProcessor PrefixConstrainedLogitsProcessor ForcedBOSTokenLogitsProcessor "
    "ForcedEOSTokenLogitsProcessor ExponentialDecayLengthPenalty SuppressTokensAtBeginLogitsProcessor StopStringCriteria "
    "ConfidenceCriteria ClassifierFreeGuidanceLogitsProcessor UnbatchedClassifierFreeGuidanceLogitsProcessor "
    "AlternatingCodebooksLogitsProcessor",
    "cache": "Cache DynamicCache StaticCache QuantizedCache EncoderDecoderCache",
    "config": "GenerationConfig GenerationMode BaseWatermarkingConfig WatermarkingConfig SynthIDTextWatermarkingConfig "
    "CompileConfig",
    "cuts": "TopHLogitsWarper TypicalLogitsWarper EpsilonLogitsWarper EtaLogitsWarper",
    "errors": "CadenzaError UsageError InputError ProbabilityError FileError UnsupportedError LimitError OutOfMemoryError CancelledError "
    "DeadlineError PluginError StateError DeniedError NotFoundError InternalError ForkError",
    "forward": "Score score",
    "manager": "ContinuousBatchingManager GenerationOutput RequestStatus Scheduler FIFOScheduler PrefillFirstScheduler",
    "model": "Model ModelConfig AutoModelForCausalLM AutoModelForSeq2SeqLM AutoConfig",
    "notebook": "show",
    "outputs": "ModelOutput GenerateDecoderOnlyOutput GenerateBeamDecoderOnlyOutput GenerateEncoderDecoderOutput "
    "GenerateBeamEncoderDecoderOutput CausalLMOutputWithPast",
    "pipelines": "pipeline TextGenerationPipeline",
    "processors": "LogitsProcessor LogitsProcessorList StoppingCriteria StoppingCriteriaList MaxLengthCriteria "
    "MaxTimeCriteria EosTokenCriteria validate_stopping_criteria",
    "sampling": "Generator sample set_seed",
    "sequences": "Sequence",
    "streamers": "BaseStreamer TextStreamer TextIteratorStreamer AsyncTextIteratorStreamer",
    "tokenizer": "AutoTokenizer Tokenizer BatchEncoding",
    "transformers": "criterion processor",
    "watchers": "Drafter Observer",
    "watermarks": "WatermarkLogitsProcessor SynthIDTextWatermarkLogitsProcessor WatermarkDetector WatermarkDetectorOutput",
}
_DRAFTS = "drafts are the engine's: give assistant_model, prompt_lookup_num_tokens or assistant_early_exit, or a cadenza.Drafter"
_MIXIN = "cadenza.Model has its methods, and is not made of mixins: open one with AutoModelForCausalLM"
_TRAINED = "it is a detector that torch trains: transformers' own takes the ids that cadenza generates"
# transformers.generation's names that make no sense here, and why.
_ABSENT = {
    "GenerationMixin": _MIXIN,
    "ContinuousMixin": _MIXIN,
    "CandidateGenerator": _DRAFTS,
    "AssistedCandidateGenerator": _DRAFTS,
    "EarlyExitCandidateGenerator": _DRAFTS,
    "PromptLookupCandidateGenerator": _DRAFTS,
    "BayesianDetectorConfig": _TRAINED,
    "BayesianDetectorModel": _TRAINED,
    "SynthIDTextWatermarkDetector": _TRAINED,
    "WhisperTimeStampLogitsProcessor": "models of speech are not read here",
}
_MODULES = ("generation", "jobs", "lm_eval", "ray", "transformers")
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


def _refuse(name: str, module: str) -> NoReturn:
    """ImportError for an import statement, which asks a package through importlib; AttributeError else."""
    why = f": {_ABSENT[name]}" if name in _ABSENT else ""
    if why and sys._getframe(2).f_globals.get("__name__") == "importlib._bootstrap":
        raise ImportError(f"cannot import name {name!r} from {module!r}{why}", name=module)
    raise AttributeError(f"module {module!r} has no attribute {name!r}{why}")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _NAMES:
        _refuse(name, __name__)
    value = getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_MODULES})
