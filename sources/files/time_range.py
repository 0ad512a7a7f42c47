"""What lies in a source's time range: by the names of folders, then by statistics."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.positions import to_us
from sources.config.file_options import TimeRange
from sources.config.file_source import FileSource
from sources.errors import InputError
from sources.storage.partitions import FolderTime, by_folder


class EmptyRangeError(InputError):
    """No file of a source holds a row of its time range."""


def in_range_by_folder(source: FileSource, files: pa.Table) -> pa.Table:
    """Leave out files whose folder, by its name, lies outside of the time range."""
    wanted = source.time_range
    if source.folder_time is None or wanted == TimeRange():
        return files
    folder_time = FolderTime(source.folder_time)

    def is_wanted(folder: str) -> bool:
        try:
            found = folder_time.range_of(folder)
        except ValueError as error:
            message = f"The folder {folder} names no time: {error}."
            raise InputError(message, "Correct `folder_time`, or the folder.") from None
        if found is None:
            message = f"The folder {folder} is not named as `folder_time` says."
            raise InputError(message, f"It should hold `{source.folder_time}`.")
        low, after = found
        return (wanted.since is None or after > wanted.since) and (
            wanted.until is None or low < wanted.until
        )

    return _require_some(source, files.filter(by_folder(files, is_wanted, pa.bool_())))


def in_range(source: FileSource, splits: pa.Table, *, exact: bool) -> pa.Table:
    """Leave out splits without a row in the time range; a sample can't tell that."""
    wanted = source.time_range
    if not exact or wanted == TimeRange():
        return splits
    keep = pc.is_null(splits["event_min_us"])
    inside = pc.is_valid(splits["event_min_us"])
    if wanted.since is not None:
        inside = pc.and_kleene(
            inside, pc.greater_equal(splits["event_max_us"], to_us(wanted.since))
        )
    if wanted.until is not None:
        inside = pc.and_kleene(inside, pc.less(splits["event_min_us"], to_us(wanted.until)))
    return _require_some(source, splits.filter(pc.or_kleene(keep, inside)))


def _require_some(source: FileSource, table: pa.Table) -> pa.Table:
    if not table.num_rows:
        wanted = source.time_range
        since, until = (
            moment.isoformat() if moment is not None else "…"
            for moment in (wanted.since, wanted.until)
        )
        message = f"Source `{source.name}`: no file holds rows from {since} until {until}."
        raise EmptyRangeError(message, "Correct `time_range`.")
    return table
