"""How results look in a notebook: tokens coloured by how probable they were, alternatives on hover."""

from __future__ import annotations

import html
import math
from typing import Any, Optional

from . import arrays

__all__ = ["show", "Shown"]


class Shown:
    """Something a notebook shows, with a plain text beside it."""

    def __init__(self, page: str, plain: str) -> None:
        self.page, self.plain = page, plain

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.page, "text/plain": self.plain}

    def __repr__(self) -> str:
        return self.plain


def mimebundle(output: Any) -> dict[str, str]:
    """Of an output of generate(): its fields and their shapes."""
    rows = [(name, _describe(value)) for name, value in output.items()]
    plain = f"{type(output).__name__}\n" + "\n".join(f"  {name}: {text}" for name, text in rows)
    cells = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>" for name, text in rows)
    page = f"<b>{html.escape(type(output).__name__)}</b><table>{cells}</table>"
    return {"text/html": page, "text/plain": plain}


def _describe(value: Any) -> str:
    if hasattr(value, "shape"):
        return f"{tuple(value.shape)} {value.dtype}"
    if isinstance(value, tuple):
        return f"{len(value)} of {_describe(value[0])}" if value else "none"
    if isinstance(value, list):
        return f"{len(value)} rows"
    return type(value).__name__


def _colour(probability: Optional[float]) -> str:
    """Red where a token was unlikely, green where it was sure."""
    if probability is None or math.isnan(probability):
        return "transparent"
    return f"hsl({round(120 * min(max(probability, 0.0), 1.0))} 70% 85%)"


def show(result: Any, tokenizer: Any, row: int = 0, top: int = 5) -> Shown:
    """The tokens of a row of a result of generate(..., return_dict_in_generate=True, output_scores=True): the darker red, the
    less probable; on hover the likeliest others. Half characters are shown as U+FFFD."""
    import numpy

    sequence = result["sequences"][row]
    ids = sequence.tolist() if hasattr(sequence, "tolist") else list(sequence)
    scores = result.get("scores") or ()
    prompt = len(ids) - len(scores) if scores else len(ids)
    beams = result.get("beam_indices")
    pieces, plain = [], []
    for place, token in enumerate(ids):
        text = tokenizer.decode([token])
        probability, hint = None, f"{token}"
        if place >= prompt:
            step = place - prompt
            source = row if beams is None else int(beams[row][step])
            if source >= 0:
                values = arrays.floats(scores[step][source], "scores").astype(numpy.float64)
                with numpy.errstate(all="ignore"):
                    probabilities = numpy.exp(values - values.max())
                    probabilities /= probabilities.sum()
                probability = float(probabilities[token])
                best = numpy.argsort(-probabilities, kind="stable")[:top]
                hint += f" {probability:.3f}"
                hint += "".join(f"\n{tokenizer.decode([int(i)])!r} {probabilities[i]:.3f}" for i in best)
        pieces.append(
            f'<span style="background:{_colour(probability)}" title="{html.escape(hint)}">{html.escape(text)}</span>'
        )
        plain.append(text if probability is None else f"{text}[{probability:.2f}]")
    page = f'<div style="white-space:pre-wrap;font-family:monospace">{"".join(pieces)}</div>'
    return Shown(page, "".join(plain))
