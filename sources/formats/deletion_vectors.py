"""Deletion vectors: rows of a file that its table has deleted without rewriting the file.

Kept as Delta stores them: a magic number, then a 64-bit Roaring bitmap of row numbers from 0
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-format).
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sources.common.optional import needs_extra

_MAGIC = (1_681_511_377).to_bytes(4, "little")
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
# https://rfc.zeromq.org/spec/32/
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85 = bytes.maketrans(_B85, _Z85)


def deletion_vector(positions: npt.NDArray[np.int64]) -> bytes | None:
    """Make the deletion vector, in Delta's format, of some rows of a file; None without rows.

    Args:
        positions: Numbers of the deleted rows, from 0.

    Raises:
        InputError: The extra ``lake`` is not installed.
    """
    if not len(positions):
        return None
    return _MAGIC + bytes(_bitmaps().BitMap64(positions.tolist()).serialize())


def count_deleted(vector: bytes) -> int:
    """Return the number of rows that a deletion vector marks.

    Raises:
        InputError: The extra ``lake`` is not installed.
    """
    return len(_positions(vector))


def kept_rows(vector: bytes, rows: int, first: int = 0) -> pa.BooleanArray:
    """Return a mask of the rows of a file, or of a part of it, that are not deleted.

    Args:
        vector: The deletion vector of the file.
        rows: Number of rows of the part.
        first: Number of its first row in the file.

    Raises:
        InputError: The extra ``lake`` is not installed.
    """
    positions = _positions(vector) - first
    kept = np.ones(rows, bool)
    kept[positions[(positions >= 0) & (positions < rows)]] = False
    return pa.array(kept)


def as_action(vector: bytes) -> dict[str, Any]:
    """Return a deletion vector as the inline descriptor of the ``add`` action of a Delta log.

    Raises:
        InputError: The extra ``lake`` is not installed.
    """
    padded = vector + b"\0" * (-len(vector) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": base64.b85encode(padded).translate(_TO_Z85).decode(),
        "sizeInBytes": len(vector),
        "cardinality": count_deleted(vector),
    }


def _positions(vector: bytes) -> npt.NDArray[np.int64]:
    bitmap = _bitmaps().BitMap64.deserialize(vector[len(_MAGIC) :])
    return np.fromiter(bitmap, np.int64, len(bitmap))


def _bitmaps() -> Any:
    with needs_extra("lake", "A table with deletion vectors"):
        import pyroaring  # noqa: PLC0415 - few need it
    return pyroaring
