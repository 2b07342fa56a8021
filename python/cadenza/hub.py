"""Where a model lies: a folder, a GGUF file, or an id whose files the local hub cache has. Nothing is downloaded."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Optional, Union

from .errors import NotFoundError


def _cache() -> pathlib.Path:
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return pathlib.Path(named)
    home = os.environ.get("HF_HOME")
    return (pathlib.Path(home) if home else pathlib.Path.home() / ".cache" / "huggingface") / "hub"


def _cached(name: str, revision: str, cache_dir: Optional[str]) -> Optional[pathlib.Path]:
    folder = (pathlib.Path(cache_dir) if cache_dir else _cache()) / ("models--" + name.replace("/", "--"))
    reference = folder / "refs" / revision
    commit = reference.read_text().strip() if reference.is_file() else revision
    snapshot = folder / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def find_model(
    name: Union[str, "os.PathLike[str]"], revision: str = "main", cache_dir: Any = None
) -> pathlib.Path:
    """The folder or file of a model. OSError (NotFoundError): there is none."""
    path = pathlib.Path(os.path.expanduser(os.fspath(name)))
    if path.exists():
        return path
    found = None
    if str(name).count("/") <= 1 and not str(name).startswith((".", "/", "~")):
        found = _cached(str(name), revision, cache_dir)
    if found is None:
        raise NotFoundError(
            f"{name}: no such folder or file, and no model of this name in {_cache()}; "
            "nothing is downloaded: fetch it first (hf download)"
        )
    return found
