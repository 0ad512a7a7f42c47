"""Selection of files by a source's time range: by folder names, then by statistics."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.positions import to_us
from sources.config.file_options import TimeRange
from sources.config.file_source import FileSource
from sources.errors import InputError
from sources.storage.partitions import FolderTime, by_folder


class EmptyRangeError(InputError):
    """No file of a source holds a row whose event time is in the source's ``time_range``."""


def in_range_by_folder(source: FileSource, files: pa.Table) -> pa.Table:
    """Return the files whose folder, by its name, may hold rows in the source's time range.

    No file is opened. Without ``folder_time`` or ``time_range`` all files are returned.

    Args:
        source: Declaration of the source.
        files: A table of schema :data:`sources.storage.base.FILES`.

    Raises:
        InputError: A folder's name does not match ``folder_time``, or contains a time that does not
            exist.
        EmptyRangeError: No file is left.
    """
    limits = source.time_range
    if source.folder_time is None or limits == TimeRange():
        return files
    folder_time = FolderTime(source.folder_time)

    def is_inside(folder: str) -> bool:
        try:
            span = folder_time.range_of(folder)
        except ValueError as error:
            message = (
                f"Source `{source.name}`: the name of folder {folder} is not a time by "
                f"`folder_time: {source.folder_time}`: {error}."
            )
            hint = "Correct `folder_time` or `path`, or rename the folder; then plan again."
            raise InputError(message, hint, source=source.name, file=folder) from None
        if span is None:
            message = (
                f"Source `{source.name}`: the name of folder {folder} does not match "
                f"`folder_time: {source.folder_time}`."
            )
            hint = (
                "Correct `folder_time`, rename the folder, or let `path` not match it; then plan "
                "again."
            )
            raise InputError(message, hint, source=source.name, file=folder)
        low, after = span
        return (limits.since is None or after > limits.since) and (
            limits.until is None or low < limits.until
        )

    return _require_some(source, files.filter(by_folder(files, is_inside, pa.bool_())))


def in_range(source: FileSource, splits: pa.Table, *, exact: bool) -> pa.Table:
    """Return the splits that may hold rows in the source's time range, by their event times.

    Splits whose event times are not known are returned, too.

    Args:
        source: Declaration of the source.
        splits: A table of schema :data:`sources.files.split_table.SPLITS`.
        exact: Whether event times come from all rows; with those of a sample, all splits are
            returned.

    Raises:
        EmptyRangeError: No split is left.
    """
    limits = source.time_range
    if not exact or limits == TimeRange():
        return splits
    keep = pc.is_null(splits["event_min_us"])
    inside = pc.is_valid(splits["event_min_us"])
    if limits.since is not None:
        inside = pc.and_kleene(
            inside, pc.greater_equal(splits["event_max_us"], to_us(limits.since))
        )
    if limits.until is not None:
        inside = pc.and_kleene(inside, pc.less(splits["event_min_us"], to_us(limits.until)))
    return _require_some(source, splits.filter(pc.or_kleene(keep, inside)))


def _require_some(source: FileSource, table: pa.Table) -> pa.Table:
    if not table.num_rows:
        limits = source.time_range
        since, until = (
            moment.isoformat() if moment is not None else "…"
            for moment in (limits.since, limits.until)
        )
        message = (
            f"Source `{source.name}`: no file holds rows from {since} until {until}, its "
            "`time_range`."
        )
        hint = "Correct `time_range`, let `path` match files of that time, or remove the source."
        raise EmptyRangeError(message, hint, source=source.name, field="time_range")
    return table
