"""Values of many records side by side, as NumPy sees them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


def spans(values: pa.Array) -> tuple[Bytes, Places, Places]:
    """The bytes of all values, binary or strings; where each begins, and the byte behind it."""
    _, offsets, data = values.buffers()
    at = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    held = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return held, at[:-1].astype(np.int64), at[1:].astype(np.int64)


def as_mask(array: pa.BooleanArray) -> Mask:
    """Booleans without nulls."""
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask
