"""Aligned micro-batches of several inputs' files, put in one order of event time.

The inputs of a join are read together. Each micro-batch has one entry of each input's plan, which
is empty where the input has nothing at that time: so a join sees the rows of history as it would
have seen them live, and keeps few of them in its state.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from sources.config.source.file_source import FileSource
from sources.planning.files.micro_batches import Ints, micro_batches

TICK = "tick"
"""Column of a table of splits: number of the micro-batch of the run in which a split is read."""
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def with_ticks(
    splits: Mapping[str, pa.Table], sources: Mapping[str, FileSource]
) -> dict[str, pa.Table]:
    """Return tables of splits that say in which micro-batch each split is read.

    Of all inputs, the micro-batch with the earliest row comes next; the next one of each other
    input is read with it if it begins before that one ends, or at its end. The number of a split's
    micro-batch, from 0, is in the column :data:`TICK`; those of all sources are counted together.

    Args:
        splits: Splits of the sources that one run reads together, in reading order, by name.
        sources: Their declarations, whose ``batch`` limits a micro-batch.
    """
    ends = {name: micro_batches(table, sources[name]) for name, table in splits.items()}
    times = {name: _times(table, ends[name]) for name, table in splits.items()}
    ticks: dict[str, list[int]] = {name: [] for name in splits}
    tick = 0
    while left := [name for name in splits if len(ticks[name]) < len(ends[name])]:
        lows = {name: times[name][0][len(ticks[name])] for name in left}
        first = min(left, key=lows.__getitem__)
        until = times[first][1][len(ticks[first])]
        for name in left:
            if name == first or lows[name] <= until:
                ticks[name].append(tick)
        tick += 1
    return {
        name: table.append_column(
            TICK, pa.array(np.repeat(ticks[name], np.diff(ends[name], prepend=0)), pa.int64())
        )
        for name, table in splits.items()
    }


def ends_by_tick(splits: pa.Table) -> Ints:
    """Return the cumulative number of splits at the end of each micro-batch, empty ones included.

    Those of this source; an empty array without splits.

    Args:
        splits: Splits of :func:`with_ticks`.
    """
    ticks = splits[TICK].to_numpy()
    last = int(ticks[-1]) if len(ticks) else -1
    ends: Ints = np.searchsorted(ticks, np.arange(last + 1), side="right")
    return ends


def _times(splits: pa.Table, ends: Ints) -> tuple[Ints, Ints]:
    """Return the lowest and the highest event time of each micro-batch, in microseconds.

    Of one without a known time: as early as can be, so that it holds up none.
    """
    if not len(ends):
        return ends, ends
    starts = np.append(0, ends[:-1])
    lows = splits["event_min_us"].fill_null(_MOST).to_numpy()
    highs = splits["event_max_us"].fill_null(_LEAST).to_numpy()
    low, high = np.minimum.reduceat(lows, starts), np.maximum.reduceat(highs, starts)
    return np.where(low == _MOST, _LEAST, low), high
