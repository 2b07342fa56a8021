"""lm-eval's tasks over a Cadenza model.

    python -m cadenza.lm_eval --model cadenza --model_args pretrained=models/pocket-dictionary --tasks ...

lm-eval reads no entry points, so this program registers the model and calls lm-eval's own. ``simple_evaluate(model=CadenzaLM(...))``
works too.
"""

from __future__ import annotations

import sys
from typing import Any, Iterator, Optional

import lm_eval.models  # noqa: F401 - its table of models must stand before ours is added
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model

from .forward import score_rows
from .model import Model
from .tokenizer import Tokenizer


@register_model("cadenza")
class CadenzaLM(TemplateLM):  # type: ignore[misc]
    """lm-eval's interface. pretrained: what from_pretrained takes; max_length: tokens; batch_size: prompts together."""

    def __init__(
        self,
        pretrained: Any,
        tokenizer: Any = None,
        max_length: Optional[int] = None,
        max_gen_toks: int = 256,
        batch_size: Any = 64,
        max_batch_size: Any = None,
        device: Optional[str] = None,
        threads: Optional[int] = None,
        quantize: Optional[str] = None,
        add_bos_token: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.model = pretrained if isinstance(pretrained, Model) else Model.from_pretrained(
            pretrained, device=device, threads=int(threads) if threads else None, quantize=quantize
        )  # fmt: skip
        self.tokenizer = Tokenizer(self.model) if tokenizer is None else tokenizer
        config = self.model.config.__dict__
        self.max_length = int(max_length or config.get("max_position_embeddings") or config.get("n_positions") or 2048)
        self.context = int(self.model.info.get("context") or config.get("max_position_embeddings") or self.max_length)
        self.max_gen_toks = int(max_gen_toks)
        self.batch_size = 64 if batch_size in (None, "auto") else int(str(batch_size).split(":")[0])
        self.add_bos_token = add_bos_token

    @property
    def eot_token_id(self) -> Any:
        return self.tokenizer.eos_token_id

    @property
    def prefix_token_id(self) -> Any:
        return self.tokenizer.bos_token_id if self.tokenizer.bos_token_id is not None else self.tokenizer.eos_token_id

    @property
    def tokenizer_name(self) -> str:
        return str(self.tokenizer.name_or_path).replace("/", "__")

    def tok_encode(self, string: str, add_special_tokens: Optional[bool] = None, **kwargs: Any) -> list[int]:
        special = add_special_tokens if add_special_tokens is not None else bool(self.add_bos_token)
        ids: list[int] = self.tokenizer.encode(string, add_special_tokens=special)
        return ids

    def chat_template(self, chat_template: Any = False) -> str:
        if self.tokenizer.chat_template is None:
            return ""
        return str(self.tokenizer.get_chat_template(chat_template if isinstance(chat_template, str) else None))

    def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
        text: str = self.tokenizer.apply_chat_template(
            chat_history, tokenize=False, add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )  # fmt: skip
        return text

    # -- log-likelihoods -------------------------------------------------------------------------------------

    def _loglikelihood_tokens(self, requests: Any, disable_tqdm: bool = False, **kwargs: Any) -> list[tuple[float, bool]]:
        """(log-likelihood of the continuation, whether it is the greedy one). What texts begin with alike is read once."""
        answers: list[Any] = [None] * len(requests)
        order = sorted(range(len(requests)), key=lambda i: (requests[i][1], requests[i][2]))
        windows = [(list(requests[i][1] + requests[i][2])[-(self.max_length + 1) :], len(requests[i][2])) for i in order]
        for i, answer in zip(order, self._scored(windows)):
            answers[i] = answer
            if requests[i][0] is not None:
                self.cache_hook.add_partial("loglikelihood", requests[i][0], answer)
        return answers

    def _scored(self, windows: list[tuple[list[int], int]]) -> Iterator[tuple[float, bool]]:
        """(log-likelihood of the last n ids, whether they are the greedy ones) of each window of ids."""
        rows = [ids[-self.context :] for ids, _ in windows]
        for found, (ids, n) in zip(score_rows(self.model, rows, 1, self.batch_size), windows):
            if len(found.ids) == len(ids):
                yield float(found.logprobs[-n:].astype("float64").sum()), bool((found.top_ids[-n:, 0] == ids[-n:]).all())
            else:  # one token more than the context: its last is read from the logits
                yield self._longest(ids, n)

    def _longest(self, ids: list[int], n: int) -> tuple[float, bool]:
        import numpy

        logits = self.model([ids[:-1]]).logits[0][-n:].astype(numpy.float64)
        shifted = logits - logits.max(axis=-1, keepdims=True)
        logprobs = shifted - numpy.log(numpy.exp(shifted).sum(axis=-1, keepdims=True))
        targets = numpy.array(ids[-n:])
        return float(logprobs[numpy.arange(n), targets].sum()), bool((logits.argmax(axis=-1) == targets).all())

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
        """The log-likelihood of whole texts, in disjoint windows, the prefix token first."""
        answers = []
        for request in requests:
            (text,) = request.args
            ids, before, windows = self.tok_encode(text), [self.prefix_token_id], []
            for first in range(0, len(ids), self.max_length):
                window = ids[first : first + self.max_length]
                windows.append((([*before, *window])[-(self.max_length + 1) :], len(window)))
                before = window
            answers.append(sum(total for total, _ in self._scored(windows)))
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, answers[-1])
        return answers

    # -- texts -----------------------------------------------------------------------------------------------

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        """Answers up to the first stop string, which is left out."""
        answers: list[str] = []
        for first in range(0, len(requests), self.batch_size):
            some = [self._prepare(request) for request in requests[first : first + self.batch_size]]
            with self.model.continuous_batching_context_manager() as manager:
                names = [manager.add_request(ids, eos_token_id=None, **options) for ids, options, _ in some]
                found: dict[str, Any] = {}
                while len(found) < len(names):
                    result = manager.get_result(timeout=1)
                    if result is not None:
                        found[result.request_id] = result
            for name, (_, _, until), request in zip(names, some, requests[first : first + self.batch_size]):
                text = self.tokenizer.decode(found[name].generated_tokens, skip_special_tokens=True)
                for stop in until:
                    if stop:
                        text = text.split(stop)[0]
                answers.append(text)
                self.cache_hook.add_partial("generate_until", request.args, text)
        return answers

    def _prepare(self, request: Any) -> tuple[list[int], dict[str, Any], list[str]]:
        context, given = request.args
        given = dict(given)
        until = given.pop("until", None) or []
        until = [until] if isinstance(until, str) else list(until)
        new = int(given.pop("max_gen_toks", given.pop("max_new_tokens", self.max_gen_toks)))
        sample = given.get("do_sample")
        temperature = given.pop("temperature", None) or 0.0
        if sample is None:
            sample = temperature > 0
        options = {k: v for k, v in given.items() if k in ("top_p", "top_k", "min_p", "repetition_penalty", "num_beams")}
        options.update(do_sample=bool(sample), max_new_tokens=new)
        if sample:
            options["temperature"] = float(temperature or 1.0)
        end = self.tokenizer.decode([self.eot_token_id]) if self.eot_token_id is not None else ""
        stops = [s for s in [*until, end] if s]
        if stops:
            options["stop_strings"] = stops
        ids = self.tok_encode(context)[-(self.max_length - new) :]
        return ids, options, stops


def main() -> None:
    """lm-eval's command line, which knows ``--model cadenza`` now."""
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    sys.modules["cadenza.lm_eval"] = sys.modules["__main__"]
    main()
