"""An answer's text as it comes: as an iterator, and as an async iterator that works in a notebook's running loop too."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, Optional

from .processors import StoppingCriteria
from .streamers import TextIteratorStreamer

if TYPE_CHECKING:
    from .model import Model

_END = object()


class _Stopped(StoppingCriteria):
    """Ends the answer when its reader has gone."""

    def __init__(self) -> None:
        self.gone = False

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> bool:
        return self.gone


class _Pieces(TextIteratorStreamer):
    """Pieces, then what the thread ended with."""

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        if text:
            self.text_queue.put(text)


def _start(model: "Model", tokenizer: Any, args: Any, kwargs: dict[str, Any]) -> tuple[_Pieces, _Stopped]:
    model._check()  # here: a callback would wait for the thread, which waits for the callback
    if tokenizer is None:
        from .tokenizer import Tokenizer

        tokenizer = Tokenizer(model)
    if args and isinstance(args[0], str):
        args = (tokenizer(args[0], return_tensors="np")["input_ids"], *args[1:])
    pieces, stopped = _Pieces(tokenizer, skip_prompt=True, skip_special_tokens=True), _Stopped()
    criteria = [*(kwargs.pop("stopping_criteria", None) or ()), stopped]

    def run() -> None:
        end: Any = _END
        try:
            model.generate(*args, **{**kwargs, "streamer": pieces, "stopping_criteria": criteria})
        except BaseException as error:  # noqa: B036 - raised in the reader
            end = error
        pieces.text_queue.put(end)

    threading.Thread(target=run, name="cadenza-stream", daemon=True).start()
    return pieces, stopped


def stream(model: "Model", tokenizer: Any, *args: Any, **kwargs: Any) -> Iterator[str]:
    """Model.stream. An error in generate() is raised here; leaving the loop ends the answer."""
    pieces, stopped = _start(model, tokenizer, args, kwargs)
    try:
        while True:
            try:
                piece: Any = pieces.text_queue.get(timeout=0.05)
            except queue.Empty:
                continue
            if piece is _END:
                return
            if isinstance(piece, BaseException):
                raise piece
            yield piece
    finally:
        stopped.gone = True


async def astream(model: "Model", tokenizer: Any, *args: Any, **kwargs: Any) -> AsyncIterator[str]:
    """Model.astream."""
    loop = asyncio.get_running_loop()
    iterator = stream(model, tokenizer, *args, **kwargs)

    def following() -> Optional[str]:
        return next(iterator, None)

    try:
        while True:
            piece = await loop.run_in_executor(None, following)
            if piece is None:
                return
            yield piece
    finally:
        iterator.close()  # type: ignore[attr-defined]
