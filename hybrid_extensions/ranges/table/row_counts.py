"""Row counts of the serving table by range of event time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from datetime import datetime

from deltalake.exceptions import DeltaError

from sources.config.loader import LoadedPipeline
from sources.planning.event_windows import EventWindows
from sources.planning.transform_analysis import read_analysis
from sources.serving import newest_generation, read_serving, target_of
from sources.state.generation import read_generation
from sources.storage.tables.delta import delta_table, is_delta_table, query_rows, unreadable_table


def rows_by_range(
    loaded: LoadedPipeline, ranges: Mapping[str, tuple[datetime, datetime]]
) -> dict[str, int]:
    """Count the rows of ranges of event time in the serving table, in one pass over it.

    In a table of windows these are the windows that start in a range.

    Args:
        loaded: The pipeline.
        ranges: Begin (inclusive) and end (exclusive) in UTC of each range by its name; no two
            overlap, and of several all are whole hours.

    Returns:
        Numbers of rows by name, 0 for a range without rows; empty if there is no table yet, or it
        lacks the column of the event time.

    Raises:
        InputError: The table can't be read.
        StateError: The state is damaged.
        UnavailableError: A store does not answer.
    """
    generation = read_serving(loaded).generation
    folder = target_of(loaded, generation)
    windows = _windows_of(loaded, generation)
    column = loaded.pipeline.event_time.column if windows is None else windows.column
    try:
        if not ranges or not is_delta_table(folder):
            return {}
        table = delta_table(folder)
        kinds = {field.name: str(field.type) for field in table.schema().fields}
        # As it is, or as a field of a window.
        if "timestamp" not in kinds.get(column, ""):
            return {}
        name = _event_time(column, windows)
        since = min(begin for begin, _ in ranges.values()).replace(tzinfo=None)
        until = max(end for _, end in ranges.values()).replace(tzinfo=None)
        hours = (
            f"SELECT date_trunc('hour', {name}) AS hour, count(*) AS rows FROM target "
            f"WHERE {name} >= {_literal(since)} AND {name} < {_literal(until)} GROUP BY 1"
        )
        found = query_rows(table, hours).read_all()
    except (DeltaError, OSError) as error:
        what = f"The table {folder.url} can't be read, so its rows are not counted"
        repair = "Restore its files and its `_delta_log` from a backup."
        raise unreadable_table(what, folder, error, repair) from None
    counts = dict.fromkeys(ranges, 0)
    pairs = zip(found["hour"].to_pylist(), found["rows"].to_pylist(), strict=True)
    begins = sorted((begin.replace(tzinfo=None), name) for name, (begin, _) in ranges.items())
    ends = {name: end.replace(tzinfo=None) for name, (_, end) in ranges.items()}
    for hour, rows in pairs:
        # A range alone may begin within an hour.
        at = max(hour.replace(tzinfo=None), since)
        place = bisect_right(begins, at, key=lambda each: each[0]) - 1
        if place >= 0 and at < ends[begins[place][1]]:
            counts[begins[place][1]] += rows
    return counts


def _windows_of(loaded: LoadedPipeline, generation: str) -> EventWindows | None:
    """Return the windows of a generation's table; None if it has none, or nothing was planned."""
    if newest_generation(loaded) is None:
        return None
    analysis = read_analysis(read_generation(loaded.state, generation))
    return None if analysis is None else analysis.windows


def _literal(moment: datetime) -> str:
    """Return a time in UTC as SQL; a text alone would be one of nanoseconds, from 1677 to 2262."""
    return f"arrow_cast('{moment.isoformat()}', 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _event_time(column: str, windows: EventWindows | None) -> str:
    """Return the SQL expression by which rows belong to a range."""
    name = '"' + column.replace('"', '""') + '"'
    if windows is None:
        return name
    if windows.field is not None:
        return f"{name}['{windows.field}']"
    later_us = windows.length_us if windows.holds == "end" else 0
    return f"({name} - INTERVAL '{later_us} microseconds')"
