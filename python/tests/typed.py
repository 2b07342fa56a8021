"""A user's file under mypy --strict; it is not run."""

import numpy
from numpy.typing import NDArray

import cadenza


class Ban(cadenza.LogitsProcessor):
    def __call__(self, input_ids: NDArray[numpy.int64], scores: NDArray[numpy.float32]) -> NDArray[numpy.float32]:
        scores[:, 5] = -numpy.inf
        return scores


def main() -> str:
    model = cadenza.AutoModelForCausalLM.from_pretrained("models/pocket-dictionary", quantize="q8_0", threads=2)
    tokenizer = cadenza.AutoTokenizer.from_pretrained("models/pocket-dictionary")
    encoded = tokenizer("river (noun):", return_tensors="np")
    config = cadenza.GenerationConfig(max_new_tokens=5)
    out = model.generate(**encoded, generation_config=config, logits_processor=[Ban()], return_dict_in_generate=True)
    token: int = cadenza.sample([0.5, 0.25], temperature=0.5)
    for piece in model.stream("river (noun):", max_new_tokens=token):
        print(piece.upper())
    text: str = tokenizer.decode(out.sequences[0])
    return text
