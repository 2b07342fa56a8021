"""Kinds of arrays: what comes in as torch, NumPy or lists goes out as the same."""

from __future__ import annotations

import sys
from typing import Any, Sequence

from .errors import UsageError

TORCH, NUMPY, LIST = "torch", "numpy", "list"


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_numpy(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def module_of(value: Any) -> Any:
    """torch or numpy: for the functions that both have by the same name."""
    if is_torch(value):
        import torch

        return torch
    import numpy

    return numpy


def copy_of(value: Any) -> Any:
    return value.clone() if is_torch(value) else value.copy()


def kind_of(value: Any) -> str:
    """"torch", "numpy" or "list"; ValueError for anything else."""
    if is_torch(value):
        return TORCH
    if is_numpy(value):
        return NUMPY
    if isinstance(value, (list, tuple)):
        return LIST
    raise UsageError(f"expected a torch tensor, a NumPy array or lists of ids, found {type(value).__name__}")


def _integer_type(value: Any, name: str) -> None:
    """Refuses an array of anything but integers."""
    if is_torch(value):
        if value.is_floating_point() or value.is_complex():
            raise UsageError(f"{name}: expected integers, found {value.dtype}")
    elif value.dtype.kind not in "iub":
        raise UsageError(f"{name}: expected integers, found {value.dtype}")


def _whole(mask: Any, name: str) -> Any:
    """A mask of floats, all 0 or 1, as integers."""
    if not (mask.is_floating_point() if is_torch(mask) else mask.dtype.kind == "f"):
        return mask
    if not ((mask == 0) | (mask == 1)).all():
        raise UsageError(f"{name}: expected 0 and 1, found other numbers")
    return mask.long() if is_torch(mask) else mask.astype("int64")


def _nested(value: Any, name: str) -> list[Any]:
    if is_torch(value) or is_numpy(value):
        _integer_type(value, name)
        if is_torch(value):
            value = value.detach().cpu()
        return value.tolist() if value.ndim else [value.tolist()]
    return [row.tolist() if is_numpy(row) or is_torch(row) else row for row in value]


def rows(value: Any, name: str, mask: bool = False) -> list[list[int]]:
    """Rows of ids of any kind: (rows, length), or one row. ValueError: ragged, no integers, more than two levels."""
    kind_of(value)
    if mask and (is_torch(value) or is_numpy(value)):
        value = _whole(value, name)
    nested = _nested(value, name)
    if not nested or not isinstance(nested[0], (list, tuple)):
        nested = [nested]
    length = len(nested[0])
    for row in nested:
        if not isinstance(row, (list, tuple)):
            raise UsageError(f"{name}: expected rows of ids, found {type(row).__name__} among them")
        if len(row) != length:
            raise UsageError(
                f"{name}: rows of {length} and of {len(row)} ids: pad them to the same length (on the left), "
                "and give an attention_mask"
            )
        for item in row:
            if type(item) is not int and not (mask and type(item) is bool):
                _check_item(item, name, mask)
    return [[int(item) for item in row] for row in nested] if mask else [list(row) for row in nested]


def _check_item(item: Any, name: str, mask: bool) -> None:
    if isinstance(item, (list, tuple)):
        raise UsageError(f"{name}: expected two dimensions, (rows, length), found more")
    if mask and isinstance(item, float) and item in (0.0, 1.0):
        return
    if is_numpy(item) and item.dtype.kind in "iu":
        return
    raise UsageError(f"{name}: expected integers, found {item!r}")


def ids_like(value: Sequence[Sequence[int]], kind: str, device: Any = None) -> Any:
    """Rows of ids as an int64 array of this kind."""
    if kind == TORCH:
        import torch

        made = torch.tensor(value, dtype=torch.long)
        return made.to(device) if device is not None and str(device) != "cpu" else made
    if kind == NUMPY:
        import numpy

        return numpy.array(value, dtype=numpy.int64)
    return [list(row) for row in value]


def unasked_kind() -> str:
    """Of an answer to a call without ids: tensors where torch is imported, as everything of transformers', else lists."""
    return TORCH if "torch" in sys.modules else LIST


def ids_array(tokens: Sequence[int]) -> Any:
    """Ids, as transformers' objects show theirs: a tensor where torch is imported, else a NumPy array."""
    return ids_like([tokens], TORCH if "torch" in sys.modules else NUMPY)[0]


def like(array: Any, kind: str, device: Any = None) -> Any:
    """A NumPy array as this kind, in the same memory where the kind can (lists become NumPy: scores are no lists)."""
    if kind == TORCH:
        import torch

        made = torch.from_numpy(array)
        return made.to(device) if device is not None and str(device) != "cpu" else made
    return array


def device_of(value: Any) -> Any:
    return value.device if is_torch(value) else None


def plain(value: Any) -> Any:
    """A parameter's value as JSON can hold it: arrays become lists, tuples too."""
    if is_torch(value) or is_numpy(value):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def floats(value: Any, name: str) -> Any:
    """Any kind of numbers as a contiguous float32 NumPy array."""
    import numpy

    if is_torch(value):
        value = value.detach().cpu().float().numpy()
    array = numpy.asarray(value)
    if array.dtype.kind not in "fiubV":  # V: bfloat16 of other packages
        raise UsageError(f"{name}: expected numbers, found {array.dtype}")
    with numpy.errstate(over="ignore"):  # what float32 cannot hold is an infinity
        return numpy.ascontiguousarray(array, dtype=numpy.float32)
