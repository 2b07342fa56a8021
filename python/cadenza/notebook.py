"""How results look in a notebook: tokens coloured by how probable they were, alternatives on hover."""

from __future__ import annotations

import ast
import html
import itertools
import math
import pathlib
import re
import shlex
import tempfile
from typing import Any, Optional

from . import arrays
from .errors import UsageError

__all__ = ["show", "Shown", "lua_cell", "load_ipython_extension"]


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


def _change_colour(change: Optional[float]) -> str:
    """Blue where processors made a token likelier, orange where less likely."""
    if change is None or math.isnan(change):
        return "transparent"
    return f"hsl({210 if change >= 0 else 30} 90% {round(100 - 35 * min(abs(change), 1.0))}%)"


def _probabilities(scores: Any) -> Any:
    import numpy

    values = arrays.floats(scores, "scores").astype(numpy.float64)
    with numpy.errstate(all="ignore"):
        made = numpy.exp(values - values.max())
        return made / made.sum()


class _Row:
    """A row of a result: its tokens, and what is known of each."""

    def __init__(self, result: Any, tokenizer: Any, row: int) -> None:
        sequence = result["sequences"][row]
        self.result, self.tokenizer, self.row = result, tokenizer, row
        self.ids: list[int] = sequence.tolist() if hasattr(sequence, "tolist") else list(sequence)
        self.scores, self.logits = result.get("scores") or (), result.get("logits") or ()
        self.steps = max(len(self.scores), len(self.logits))
        beams = result.get("beam_indices")
        self.beams = None if beams is None else [int(index) for index in beams[row]]
        if self.beams is not None:
            self.steps = len(self.beams)
        self.prompt = len(self.ids) - self.steps if self.steps else len(self.ids)

    def text(self, token: int) -> str:
        return str(self.tokenizer.decode([token]))

    def _at(self, of: Any, step: int) -> Any:
        """The probabilities of a step in its row, or None."""
        source = self.row if self.beams is None else self.beams[step]
        if step >= len(of) or source < 0:
            return None
        return _probabilities(of[step][source])

    def token(self, place: int, top: int) -> tuple[Optional[float], Optional[float], str]:
        """(probability, what processors added to it, the hint) of the token there."""
        token, step = self.ids[place], place - self.prompt
        if step < 0:
            return None, None, f"{token}"
        after, before = self._at(self.scores, step), self._at(self.logits, step)
        shown = after if after is not None else before
        if shown is None:
            return None, None, f"{token}"
        change = None if after is None or before is None else float(after[token] - before[token])
        hint = f"{token} {shown[token]:.3f}" + ("" if change is None else f" (the model's own: {before[token]:.3f})")
        best = sorted(range(len(shown)), key=lambda i: -shown[i])[:top]
        hint += "".join(f"\n{self.text(i)!r} {shown[i]:.3f}" for i in best)
        return float(shown[token]), change, hint


def _span(text: str, colour: str, hint: str) -> str:
    return f'<span style="background:{colour}" title="{html.escape(hint)}">{html.escape(text)}</span>'


_BOX = '<div style="white-space:pre-wrap;font-family:monospace">'


def show(result: Any, tokenizer: Any, row: int = 0, top: int = 5, by: str = "probability") -> Shown:
    """The tokens of a row of a result of generate(..., return_dict_in_generate=True, output_scores=True), coloured; on hover the
    likeliest others. Half characters are shown as U+FFFD.

    by="probability": from red, unlikely, to green, sure. by="change": what the processors added to the token's probability, blue, or
    took from it, orange; needs output_logits=True besides. by="beams": the sequences of row's prompt as a tree. by="drafts": what was
    drafted and accepted in each round. ValueError: the result has not what is asked for.
    """
    kinds = {"probability": _show_tokens, "change": _show_changes, "beams": _show_beams, "drafts": _show_drafts}
    if by not in kinds:
        raise UsageError(f"show: by={by!r}: expected one of {', '.join(kinds)}")
    if not 0 <= row < len(result["sequences"]):
        raise UsageError(f"show: row {row}: the result has {len(result['sequences'])} rows")
    return kinds[by](result, tokenizer, row, top)


def _show_tokens(result: Any, tokenizer: Any, row: int, top: int) -> Shown:
    known = _Row(result, tokenizer, row)
    pieces, plain = [], []
    for place, token in enumerate(known.ids):
        probability, _, hint = known.token(place, top)
        text = known.text(token)
        pieces.append(_span(text, _colour(probability), hint))
        plain.append(text if probability is None else f"{text}[{probability:.2f}]")
    return Shown(f"{_BOX}{''.join(pieces)}</div>", "".join(plain))


def _show_changes(result: Any, tokenizer: Any, row: int, top: int) -> Shown:
    known = _Row(result, tokenizer, row)
    if not known.scores or not known.logits:
        raise UsageError("show: by='change' needs output_scores=True and output_logits=True")
    pieces, plain = [], []
    for place, token in enumerate(known.ids):
        _, change, hint = known.token(place, top)
        text = known.text(token)
        pieces.append(_span(text, _change_colour(change), hint))
        plain.append(text if change is None else f"{text}[{change:+.2f}]")
    return Shown(f"{_BOX}{''.join(pieces)}</div>", "".join(plain))


def _show_beams(result: Any, tokenizer: Any, row: int, top: int) -> Shown:
    """The sequences that begin with the same prompt as this row, those with a common beginning under one branch."""
    rows = [_Row(result, tokenizer, r) for r in range(len(result["sequences"]))]
    if rows[row].beams is None:
        raise UsageError("show: by='beams' needs the result of a beam search (num_beams)")
    prompt = rows[row].ids[: rows[row].prompt]
    family = [each for each in rows if each.ids[: each.prompt] == prompt]
    totals = result.get("sequences_scores")
    ends = {id(each): "" if totals is None else f"  ({float(totals[each.row]):.3f})" for each in family}

    def branch(members: list[_Row], place: int, depth: int) -> tuple[str, str]:
        page, plain = "", ""
        groups: dict[int, list[_Row]] = {}
        for member in members:
            if place < len(member.ids) and (member.beams or [])[place - member.prompt] >= 0:
                groups.setdefault(member.ids[place], []).append(member)
        for group in groups.values():
            spans, texts, at = "", "", place
            while True:  # as far as they are alike
                probability, _, hint = group[0].token(at, top)
                text = group[0].text(group[0].ids[at])
                spans += _span(text, _colour(probability), hint)
                texts += text if probability is None else f"{text}[{probability:.2f}]"
                at += 1
                going = [m for m in group if at < len(m.ids) and (m.beams or [])[at - m.prompt] >= 0]
                if len(going) != len(group) or len({m.ids[at] for m in group}) != 1:
                    break
            over = "".join(ends[id(m)] for m in group if m not in going)
            below = branch(going, at, depth + 1)
            page += f"<li>{spans}{html.escape(over)}{below[0]}</li>"
            plain += "  " * depth + texts + over + "\n" + below[1]
        return (f"<ul>{page}</ul>" if page else ""), plain

    head = str(tokenizer.decode(prompt))
    page, plain = branch(family, len(prompt), 1)
    return Shown(f"{_BOX}{html.escape(head)}{page}</div>", head + "\n" + plain.rstrip("\n"))


def _show_drafts(result: Any, tokenizer: Any, row: int, top: int) -> Shown:
    """A line a round: the tokens that a drafter had right, and the one that the model added."""
    rounds = getattr(result, "rounds", None)
    if rounds is None:
        raise UsageError("show: by='drafts' needs the result of a generation with drafts (assistant_model, prompt_lookup_num_tokens, drafter)")
    if len(result["sequences"]) != 1:
        raise UsageError(f"show: by='drafts' is for results of one row, this one has {len(result['sequences'])}")
    known = _Row(result, tokenizer, row)
    place = len(known.ids) - sum(accepted + 1 for _, accepted in rounds)
    place = max(place, known.prompt if known.steps else place)
    pages, plain = [], []
    for proposed, accepted in rounds:
        right, added = known.ids[place : place + accepted], known.ids[place + accepted : place + accepted + 1]
        texts = ["".join(known.text(token) for token in some) for some in (right, added)]
        place += accepted + 1
        pages.append(f"<tr><td>{accepted}/{proposed}</td><td>{_span(texts[0], _colour(1.0), 'accepted')}{html.escape(texts[1])}</td></tr>")
        plain.append(f"{accepted}/{proposed} [{texts[0]}]{texts[1]}")
    return Shown(f'<table style="white-space:pre-wrap;font-family:monospace">{"".join(pages)}</table>', "\n".join(plain))


# -- Lua in a cell -----------------------------------------------------------------------------------------------------

_KIND = re.compile(r"^\s*return\s+cadenza\.(\w+)", re.MULTILINE)
_scripts: Any = None  # the folder of this session's scripts


def lua_cell(line: str, script: str) -> tuple[str, Any]:
    """What ``%%cadenza_lua NAME [parameter=value ...]`` makes of a cell: (name, object).

    A processor or criterion becomes what generate() takes in its lists, with these parameters; a drafter, observer or strategy the
    path of its script, for drafter=, observers= and custom_generate=. The script is compiled at once: CadenzaError says what is wrong.
    """
    global _scripts
    words = shlex.split(line)
    if not words or not words[0].isidentifier():
        raise UsageError("%%cadenza_lua NAME [parameter=value ...]: expected the name of a variable")
    given = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"%%cadenza_lua: expected parameter=value, found {word!r}")
        try:
            given[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            given[name] = value
    found = _KIND.search(script)
    if found is None:
        raise UsageError("%%cadenza_lua: the cell returns no plugin: return cadenza.processor { ... }")
    if _scripts is None:
        _scripts = tempfile.TemporaryDirectory(prefix="cadenza-lua-")
    path = pathlib.Path(_scripts.name, f"{words[0]}-{next(_number)}.lua")
    path.write_text(script, encoding="utf-8")
    return words[0], _of_script(found[1], path, given)


_number = itertools.count(1)


def _of_script(kind: str, path: pathlib.Path, given: dict[str, Any]) -> Any:
    from .transformers import criterion, processor

    made: Any
    if kind == "processor":
        made = processor(path, **given)
    elif kind == "criterion":
        made = criterion(path, **given)
    elif given:
        raise UsageError(f"%%cadenza_lua: parameters are for processors and criteria; a {kind} has them in a pipeline")
    else:
        return str(path)
    made.compile()
    return made


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext cadenza``: the cell magic ``%%cadenza_lua``."""

    def cadenza_lua(line: str, cell: str) -> None:
        name, made = lua_cell(line, cell)
        shell.push({name: made})

    shell.register_magic_function(cadenza_lua, magic_kind="cell", magic_name="cadenza_lua")
