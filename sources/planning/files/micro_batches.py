"""Micro-batches of a file source: which splits each of them reads, by the limits of ``batch``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sources.config.source.file_options import FileBatch
from sources.config.source.file_source import FileSource

Ints = npt.NDArray[np.int64]
"""Array of whole numbers."""


def batch_ends(lengths: Sequence[int], limit: FileBatch) -> Ints:
    """Divide splits into micro-batches: return the cumulative number of splits at each one's end.

    A batch takes splits until it has reached one of its limits, as Delta's source does
    (``AdmissionLimits``): at least one, and the last one may exceed the bytes. The last number is
    the number of splits; empty without splits.

    Args:
        lengths: Bytes of each split, in reading order.
        limit: Limits of a micro-batch: files and bytes.
    """
    ends: list[int] = []
    first, size = 0, 0
    for at, length in enumerate(lengths):
        if at > first and (at - first >= limit.files or size >= limit.bytes):
            ends.append(at)
            first, size = at, 0
        size += length
    return np.array([*ends, len(lengths)] if lengths else [], np.int64)


def micro_batches(splits: pa.Table, source: FileSource) -> Ints:
    """Divide splits into micro-batches: return the cumulative number of splits at each one's end.

    The limits ``batch`` decide; if the source is read in order of arrival, each interval of arrival
    is one micro-batch.

    Args:
        splits: The table of splits, in reading order.
        source: The declaration, with the limits ``batch``.
    """
    if source.arrival is None:
        return batch_ends(splits["length"].to_pylist(), source.batch)
    arrived = splits["arrived_from"].to_numpy()
    ends: Ints = np.append(np.flatnonzero(np.diff(arrived)) + 1, len(arrived))
    return ends if len(arrived) else ends[:0]
