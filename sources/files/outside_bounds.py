"""Rows of files whose event time is out of bounds: found, refused, and written as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.schema import TIMESTAMP
from sources.common.sql.select import EventColumn
from sources.common.times import iso
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.columns.mapped_columns import MappedColumns
from sources.formats.deletion_vectors import kept_rows
from sources.formats.event_times import is_outside, microseconds
from sources.formats.lines import BadRow
from sources.formats.parquet.file import parquet_file
from sources.formats.parquet.footer import unreadable
from sources.formats.row_check import Find, as_json
from sources.storage.folder_partitions import typed_value, values_of
from sources.storage.stores import Stores


def find_outside(source: FileSource, event_time: str, bounds: tuple[int, int]) -> Find:
    """Return a function that finds the rows of a file whose event time is out of bounds.

    It takes a batch of rows as a table, and returns for each such row its index in the table and
    the reason in words; rows without an event time are not among them.

    Args:
        source: Declaration of the source, whose ``select`` computes the event time.
        event_time: Name of the event-time column, after ``select``.
        bounds: Lowest and highest event time that counts, in Unix microseconds, both inclusive.

    Raises:
        InputError: An expression of ``select`` is not SQL; the function also raises it if the event
            time can't be evaluated.
    """
    event = source.event_column(event_time)

    def find(rows: pa.Table) -> Sequence[tuple[int, str]]:
        if event is not None:
            micros = microseconds(rows[event.name], event.unit_us)
        else:
            batches = rows.combine_chunks().to_batches()
            values = [source.selection.evaluate(event_time, batch) for batch in batches]
            micros = microseconds(
                pa.chunked_array(
                    [chunk for each in values for chunk in each.chunks],
                    values[0].type if values else pa.timestamp("us", "UTC"),
                )
            )
        found = pc.min_max(micros)
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is None or (bounds[0] <= low and high <= bounds[1]):
            return []
        mask = is_outside(micros, *bounds)
        indexes = pc.indices_nonzero(mask.combine_chunks()).to_pylist()
        times = micros.filter(mask).to_pylist()
        return [(at, _reason(time, bounds)) for at, time in zip(indexes, times, strict=True)]

    return find


def refuse_outside(row: BadRow) -> None:
    """Raise the error for a row out of bounds; the handler of such rows for ``outside: fail``.

    Raises:
        InputError: Always; contains file, place, event time and the first 60 bytes of the row.
    """
    hint = (
        "To continue without such rows, declare `outside: quarantine` (or `drop`) under "
        "`event_time` and run the pipeline again (`hybrid run P`). If the time is right, declare "
        "wider bounds (`not_before`, `not_after`) there, or repair the file, and begin a new "
        "generation: `hybrid generation new P`."
    )
    raise InputError(row.in_words, hint, file=row.path)


class PlannedParquetRows(NamedTuple):
    """Planned Parquet file, with its mapping to the source's columns and its deleted rows.

    Attributes:
        path: The file.
        partition: Values of its partition columns, as in the table of splits.
        deleted: Its deletion vector; None without deleted rows.
        mapping: Names of the columns inside the file; None if they are the source's.
    """

    path: str
    partition: str
    deleted: bytes | None = None
    mapping: MappedColumns | None = None


def outside_of_parquet(
    rows_of: PlannedParquetRows,
    columns: Sequence[str],
    event: EventColumn,
    bounds: tuple[int, int],
    stores: Stores,
) -> Iterator[list[BadRow]]:
    """Yield the rows of a Parquet file whose event time is out of bounds, in lists.

    A :class:`BadRow`'s offset is the row's number in the file, from 0; its content is the row as
    JSON. There is a list for each batch that is read, in the order of the file; it may be empty.
    Rows that its deletion vector marks are left out.

    Args:
        rows_of: The file.
        columns: Names of the columns to put into the content, where the file has them.
        event: Column of the event time.
        bounds: Lowest and highest event time that counts, in Unix microseconds, both inclusive.
        stores: Storages that the file may be in.

    Raises:
        InputError: The file can't be read.
    """
    path, partition, deleted, mapping = rows_of
    constants = values_of(partition)
    first = 0
    try:
        with stores.of(path).open(path) as stream, parquet_file(stream) as file:
            own = {name: name for name in file.schema_arrow.names}
            if mapping is not None:
                own = mapping.inside(file.schema_arrow)
                event = event._replace(name=own.get(event.name, event.name))
            event = event.within(file.schema_arrow) or event
            inside = [name for name in columns if name in own and name not in constants]
            names = [own[name] for name in inside]
            names += [event.name] if event.name not in {*names, *constants} else []
            for batch in file.iter_batches(columns=names):
                rows = pa.Table.from_batches([batch])
                if event.name in constants:
                    kind = TIMESTAMP if event.unit_us is None else pa.int64()
                    at = typed_value(constants[event.name], kind)
                    times = pa.chunked_array([pa.repeat(at, batch.num_rows)])
                else:
                    times = rows[event.name]
                micros = microseconds(times, event.unit_us)
                mask = is_outside(micros, *bounds)
                if deleted is not None:
                    mask = pc.and_(mask, kept_rows(deleted, batch.num_rows, first))
                indexes = pc.indices_nonzero(mask.combine_chunks()).to_pylist()
                bad = rows.filter(mask).select([own[name] for name in inside])
                bad = bad.rename_columns(inside)
                for name, value in constants.items():
                    bad = bad.append_column(
                        name, pa.repeat(pa.scalar(value, pa.string()), len(bad))
                    )
                found = micros.filter(mask).to_pylist()
                places = zip(indexes, as_json(bad), found, strict=True)
                yield [
                    BadRow(path, first + number, content, _reason(time, bounds))
                    for number, content, time in places
                ]
                first += batch.num_rows
    except (OSError, pa.ArrowException) as error:
        hint = "Restore the file as it was planned, then run the pipeline again (`hybrid run P`)."
        raise unreadable(path, error, hint) from None


def _reason(micros: int, bounds: tuple[int, int]) -> str:
    low, high = (iso(each // 1000) for each in bounds)
    return f"its event time {iso(micros // 1000)} is outside of {low} to {high}"
