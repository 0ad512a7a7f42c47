"""Data of the plots of a pipeline: progress of each source over time, and rows by day."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from orchestration.progress.forecast import eta_s, rate
from sources.common.counting import counted
from sources.config.loader import LoadedPipeline
from sources.hybrid import SwitchState
from sources.serving import target_of
from sources.storage.tables.delta import delta_table, is_delta_table, query_rows, unreadable_table
from spark_jobs.run_state.progress_log import ProgressLog, read_progress_log

MOST_ROWS = 100_000_000
"""Largest target whose rows are counted by day: reading one column of it takes seconds."""
_TIMES = ("timestamp", "timestamp_ntz", "date")
# A picture has a margin, and matplotlib no dates before the year 1 and after the year 9999, which
# stand for no date at all.
_FIRST, _LAST = date(1000, 1, 1), date(9000, 12, 31)


class Pace(NamedTuple):
    """Rate at which a source is read.

    Attributes:
        source: Name of the source.
        unit: What is counted in the plural, such as ``rows``, ``records`` or ``splits``.
        per_s: Units per second, over all launches; None if unknown.
        eta_s: Seconds until nothing is left; None if unknown.
    """

    source: str
    unit: str
    per_s: float | None
    eta_s: float | None


class RowsByDay(NamedTuple):
    """Number of rows of a target for each day.

    Attributes:
        column: Column that the day is taken from.
        counts: Days (UTC) and numbers of rows, in order.
    """

    column: str
    counts: list[tuple[date, int]]


def progress_logs(loaded: LoadedPipeline) -> dict[str, ProgressLog]:
    """Return the progress log (samples of a source's run over time) of each source that has one.

    Returns:
        Logs by name of the source, in the chain's order; empty before the first run.

    Raises:
        InputError: The state's store refuses.
        StateError: Nothing was planned yet, or a log can't be read.
        UnavailableError: The state's store does not answer.
    """
    generation = loaded.require_generation()
    found = {
        source.name: read_progress_log(generation, source.name)
        for source in loaded.pipeline.sources
    }
    return {name: log for name, log in found.items() if log is not None}


def paces(logs: dict[str, ProgressLog]) -> list[Pace]:
    """Return each source's rate, and the time until it is read, in the order of the logs.

    Args:
        logs: Progress logs by name of the source, as :func:`progress_logs` returns them.
    """
    return [Pace(name, log.unit, rate(log), eta_s(log)) for name, log in logs.items()]


def seam_ms(loaded: LoadedPipeline) -> int | None:
    """Return the event time through which history is complete, where plots draw the seam.

    Returns:
        Milliseconds since 1970, of the last bounded source that has ended; None if none has.

    Raises:
        InputError: The state's store refuses.
        StateError: Nothing was planned yet.
        UnavailableError: The state's store does not answer.
    """
    generation = loaded.require_generation()
    enumerator = SwitchState(loaded.pipeline.hybrid_source(), generation)
    ends = enumerator.ends_before(loaded.pipeline.sources[-1].name)
    return ends[-1].complete_through_ms if ends else None


def rows_by_day(loaded: LoadedPipeline) -> RowsByDay | str:
    """Count the target's rows by day (UTC) of its event time, or else of another time column.

    Returns:
        The counts; or a sentence that says why there are none: no table yet, no column with a
        time, one with dates that no picture has, or more than :data:`MOST_ROWS` rows.

    Raises:
        InputError: The target exists but can't be read.
        StateError: The state is damaged.
        UnavailableError: The store of the state or of the table does not answer.
    """
    path = target_of(loaded)
    try:
        if not is_delta_table(path):
            return "There is no target table yet."
        target = delta_table(path)
        column = _time_column(loaded, target)
        if column is None:
            return "The target table has no timestamp or date column to count its rows by."
        counts = target.get_add_actions(flatten=True)["num_records"].to_pylist()
        # Of files without statistics it is not known.
        rows = sum(each or 0 for each in counts)
        if rows > MOST_ROWS:
            return (
                f"The target table has {counted(rows, 'row')}; only tables of up to "
                f"{counted(MOST_ROWS, 'row')} are "
                "counted by day."
            )
        days = _count(target, column)
        if not days or (days[0][0] >= _FIRST and days[-1][0] <= _LAST):
            return RowsByDay(column, days)
    except OverflowError:
        # Python has no dates before the year 1 and after the year 9999.
        pass
    except (DeltaError, OSError) as error:
        what = f"The target table {path} can't be read, so its rows are not counted"
        repair = (
            "Restore the table's data files and `_delta_log` from a backup, then materialize the "
            "asset `progress` again."
        )
        raise unreadable_table(what, path, error, repair) from None
    return (
        f"Column `{column}` of the target table has dates outside of the years {_FIRST.year} to "
        f"{_LAST.year}, so its rows are not counted by day."
    )


def _time_column(loaded: LoadedPipeline, target: DeltaTable) -> str | None:
    """Return the event time, if the target has it; else a time of its key, else its first time."""
    times = [field.name for field in target.schema().fields if str(field.type.type) in _TIMES]
    preferred = [loaded.pipeline.event_time.column, *loaded.pipeline.sink.key, *times]
    return next((name for name in preferred if name in times), None)


def _count(target: DeltaTable, column: str) -> list[tuple[date, int]]:
    name = column.replace('"', '""')
    query = (
        f'SELECT CAST("{name}" AS DATE) AS day, count(*) AS rows FROM target '
        f'WHERE "{name}" IS NOT NULL GROUP BY 1 ORDER BY 1'
    )
    # Unlike its Arrow dataset, delta-rs's own engine knows deletion vectors and mapped columns.
    table = query_rows(target, query).read_all()
    return list(zip(table["day"].to_pylist(), table["rows"].to_pylist(), strict=True))
