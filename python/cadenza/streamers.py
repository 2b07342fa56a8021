"""Streamers: objects with ``put(ids)`` and ``end()``. The prompt comes first, (rows, length), then (rows,) a step; with drafts
(k,) at once. end() is called once, and not after an error. These are transformers' classes, over any tokenizer with decode()."""

from __future__ import annotations

import asyncio
import queue
from typing import Any, Optional

__all__ = ["BaseStreamer", "TextStreamer", "TextIteratorStreamer", "AsyncTextIteratorStreamer"]


class BaseStreamer:
    """What a streamer has."""

    def put(self, value: Any) -> None:
        """New ids."""
        raise NotImplementedError

    def end(self) -> None:
        """There are no more."""
        raise NotImplementedError


def _ideograph(code: int) -> bool:
    return any(
        first <= code <= last
        for first, last in (
            (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
            (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
        )
    )  # fmt: skip


class TextStreamer(BaseStreamer):
    """Prints text as whole words: up to the last space, a finished line or an ideograph at once. One row: ValueError else."""

    def __init__(self, tokenizer: Any, skip_prompt: bool = False, **decode_kwargs: Any) -> None:
        self.tokenizer = tokenizer
        self.skip_prompt = skip_prompt
        self.decode_kwargs = decode_kwargs
        self.token_cache: list[int] = []
        self.print_len = 0
        self.next_tokens_are_prompt = True

    def put(self, value: Any) -> None:
        ids = value.tolist() if hasattr(value, "tolist") else list(value)
        if ids and isinstance(ids[0], (list, tuple)):
            if len(ids) > 1:
                raise ValueError(f"{type(self).__name__} takes one row, found {len(ids)}")
            ids = list(ids[0])
        prompt, self.next_tokens_are_prompt = self.next_tokens_are_prompt, False
        if self.skip_prompt and prompt:
            return
        self.token_cache.extend(ids)
        text = self.tokenizer.decode(self.token_cache, **self.decode_kwargs)
        if text.endswith("\n"):
            piece = text[self.print_len :]
            self.token_cache, self.print_len = [], 0
        elif text and _ideograph(ord(text[-1])):
            piece = text[self.print_len :]
            self.print_len += len(piece)
        else:
            piece = text[self.print_len : text.rfind(" ") + 1]
            self.print_len += len(piece)
        self.on_finalized_text(piece)

    def end(self) -> None:
        rest = ""
        if self.token_cache:
            rest = self.tokenizer.decode(self.token_cache, **self.decode_kwargs)[self.print_len :]
            self.token_cache, self.print_len = [], 0
        self.next_tokens_are_prompt = True
        self.on_finalized_text(rest, stream_end=True)

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        """Override it to do something else than printing."""
        print(text, flush=True, end="\n" if stream_end else "")


class TextIteratorStreamer(TextStreamer):
    """Pieces of text as an iterator, for a thread that is not the one in generate(). timeout: queue.Empty after it."""

    def __init__(
        self, tokenizer: Any, skip_prompt: bool = False, timeout: Optional[float] = None, **decode_kwargs: Any
    ) -> None:
        super().__init__(tokenizer, skip_prompt, **decode_kwargs)
        self.text_queue: "queue.Queue[Optional[str]]" = queue.Queue()
        self.stop_signal: Optional[str] = None
        self.timeout = timeout

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        self.text_queue.put(text, timeout=self.timeout)
        if stream_end:
            self.text_queue.put(self.stop_signal, timeout=self.timeout)

    def __iter__(self) -> "TextIteratorStreamer":
        return self

    def __next__(self) -> str:
        value = self.text_queue.get(timeout=self.timeout)
        if value is self.stop_signal or value is None:
            raise StopIteration
        return value


class AsyncTextIteratorStreamer(TextStreamer):
    """The same as an async iterator, made inside the running loop. timeout: TimeoutError after it."""

    def __init__(
        self, tokenizer: Any, skip_prompt: bool = False, timeout: Optional[float] = None, **decode_kwargs: Any
    ) -> None:
        super().__init__(tokenizer, skip_prompt, **decode_kwargs)
        self.text_queue: "asyncio.Queue[Optional[str]]" = asyncio.Queue()
        self.stop_signal: Optional[str] = None
        self.timeout = timeout
        self.loop = asyncio.get_running_loop()

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        self.loop.call_soon_threadsafe(self.text_queue.put_nowait, text)
        if stream_end:
            self.loop.call_soon_threadsafe(self.text_queue.put_nowait, self.stop_signal)

    def __aiter__(self) -> "AsyncTextIteratorStreamer":
        return self

    async def __anext__(self) -> str:
        try:
            value = await asyncio.wait_for(self.text_queue.get(), self.timeout)
        except asyncio.TimeoutError:
            raise TimeoutError(f"no text for {self.timeout} s") from None
        if value is None:
            raise StopAsyncIteration
        return value
