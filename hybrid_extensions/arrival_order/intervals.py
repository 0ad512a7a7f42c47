"""Order of arrival (`order.every`): a file's rows by interval; after a pause an empty split.

A live run takes what has arrived since its last trigger, and Spark's triggers fall on multiples of
the interval since 1970 (``ProcessingTimeExecutor``). So the rows of a file are divided into such
intervals, each of which is read as a micro-batch of its own. Of one partition, ranges of offsets do
as well: those of a live run that reads so many offsets at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sources.common.counting import counted
from sources.common.schema import type_name
from sources.common.sql.select import EventColumn
from sources.config.source.file_options import ArrivalOrder
from sources.errors import InputError
from sources.files.listing.split_table import SPLITS
from sources.formats.event_times import TimeLimits, column_range
from sources.formats.parquet.file import parquet_file
from sources.formats.parquet.footer import unreadable
from sources.formats.parquet.rows import arrival_numbers
from sources.storage.stores import Stores

_THREADS = 8
_ORDER = [(name, "ascending") for name in ("arrived_from", "path")]
# Beyond it, starting micro-batches takes longer than most of them.
_MANY = 20_000


class _Slice(NamedTuple):
    """Rows of a file that arrived within one interval; fields are those of a split."""

    arrived_from: int
    rows: int
    event_min_us: int | None
    event_max_us: int | None
    nulls: int | None
    outside: int
    outside_min_us: int | None
    outside_max_us: int | None


def in_order_of_arrival(
    source: str,
    order: ArrivalOrder,
    splits: pa.Table,
    event: EventColumn,
    limits: TimeLimits,
    stores: Stores,
) -> tuple[pa.Table, list[str]]:
    """Divide files into splits by the interval in which rows arrived, in order of arrival.

    Reads the columns of arrival and event time of all rows, so event times are exact and intervals
    without rows are left out. If nothing arrived for a while after an interval, a split without
    rows follows it: a live run has an empty micro-batch then, in which its watermark takes effect.

    Args:
        source: Name of the source, for messages.
        order: The declared order.
        splits: The files: a table of schema :data:`~sources.files.listing.split_table.SPLITS`.
        event: Column of the event time.
        limits: Limits within which event times count.
        stores: Storages that the files may be in.

    Returns:
        The splits, one for each file and interval, in order of arrival; and warnings.

    Raises:
        InputError: A file can't be read, or its column of arrival is missing, is no timestamp or
            has nulls.
    """

    def read(path: str) -> list[_Slice]:
        return list(_slices(path, order, event, limits, stores))

    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(read, splits["path"].to_pylist()))
    rows = [
        {**file, **part}
        for file, slices in zip(splits.to_pylist(), found, strict=True)
        for part in _shares(file["size"], slices)
    ]
    made = pa.Table.from_pylist(rows, SPLITS).sort_by(_ORDER)
    if not order.is_by_offset:
        made = _with_pauses(made, order.step)
    intervals = pc.count_distinct(made["arrived_from"]).as_py()
    if intervals <= _MANY:
        return made, []
    return made, [
        f"Source `{source}`: in order of arrival its rows are {counted(intervals, 'micro-batch')}. "
        "With a longer `order.every` there are fewer, and values are less exact."
    ]


def _slices(
    path: str, order: ArrivalOrder, event: EventColumn, limits: TimeLimits, stores: Stores
) -> Iterator[_Slice]:
    """Yield the slices of a file in ascending order."""
    column = order.arrival
    try:
        with stores.of(path).open(path) as stream, parquet_file(stream) as file:
            schema = file.schema_arrow
            _check(path, schema, order)
            name = (event.within(schema) or event).name
            table = file.read(columns=list(dict.fromkeys([column, name])))
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from None
    if nulls := table[column].null_count:
        message = (
            f"Column `{column}`, which `order.arrival` names, is null in "
            f"{counted(nulls, 'row')} of {path}: when they arrived is not known."
        )
        hint = "Rewrite the file with that time in each row, or remove `order`."
        raise InputError(message, hint, file=path, column=column)
    arrived = arrival_numbers(table[column]).to_numpy()
    starts = arrived // order.step * order.step
    ranks = np.argsort(starts, kind="stable")
    present, firsts = np.unique(starts[ranks], return_index=True)
    times = table[name].take(pa.array(ranks))
    ends = [*firsts[1:].tolist(), len(ranks)]
    for start, first, end in zip(present.tolist(), firsts.tolist(), ends, strict=True):
        found = column_range(times.slice(first, end - first), event.unit_us, limits)
        yield _Slice(start, end - first, *found[1:])


def _check(path: str, schema: pa.Schema, order: ArrivalOrder) -> None:
    column = order.arrival
    if column not in schema.names:
        message = f"There is no column `{column}` in {path}, which `order.arrival` names."
        hint = f"Correct `order.arrival`; the file has {', '.join(schema.names)}."
        raise InputError(message, hint, file=path, column=column, field="order.arrival")
    kind = schema.field(column).type
    fits = pa.types.is_integer(kind) if order.is_by_offset else pa.types.is_timestamp(kind)
    if not fits:
        needed = "a number, so an integer" if order.is_by_offset else "a duration, so a timestamp"
        message = (
            f"Column `{column}`, which `order.arrival` names, is {type_name(kind)} in {path}; "
            f"`every` is {needed} is needed."
        )
        hint = (
            "Name the timestamp at which a row arrived, with a duration as `every`, or the column "
            "with its offset, with a number; or remove `order`."
        )
        raise InputError(message, hint, file=path, column=column, field="order.arrival")


def _shares(size: int, slices: list[_Slice]) -> Iterator[dict[str, int | None]]:
    """Yield the slices of a file with their share of its bytes, one byte at least."""
    total = sum(each.rows for each in slices)
    offset = 0
    for number, each in enumerate(slices):
        last = number == len(slices) - 1
        length = size - offset if last else max(size * each.rows // total, 1)
        yield {**each._asdict(), "offset": offset, "length": max(length, 1)}
        offset += length


def _with_pauses(splits: pa.Table, step: int) -> pa.Table:
    """Add a split without rows to the first interval of each pause, but not after the last row."""
    starts = splits["arrived_from"].to_numpy()
    before = np.flatnonzero(np.diff(starts) > step)
    pauses = splits.take(pa.array(before)).to_pylist()
    empty = [
        {
            **{name: each[name] for name in ("path", "size", "modified_ns", "etag", "partition")},
            "offset": each["size"],
            "length": 0,
            "arrived_from": each["arrived_from"] + step,
            "rows": 0,
            "nulls": 0,
            "outside": 0,
        }
        for each in pauses
    ]
    return pa.concat_tables([splits, pa.Table.from_pylist(empty, SPLITS)]).sort_by(_ORDER)
