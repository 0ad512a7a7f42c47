"""Record of what each range of a training set was computed from."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from sources.common.state_document import Part, Record
from sources.config.loader import LoadedPipeline
from sources.storage.folder import Folder


class ComputedFrom(Part):
    """State of a feature table that a range was computed from.

    Attributes:
        version: Version of the table.
        digest: Digest of the table's identity and of how it is joined.
    """

    version: int
    digest: str


class RangeRecord(Part):
    """What one range of label times was computed from.

    Attributes:
        labels: Fingerprint of its labels.
        rows: Number of its labels.
        commit: Version of the set's table in which its rows were written.
        tables: The feature tables, by their names in the set.
    """

    labels: str
    rows: int
    commit: int = 0
    tables: dict[str, ComputedFrom]


class SetRecord(Record):
    """What the ranges of a training set were computed from; written after their commit.

    Attributes:
        table: Id of the Delta table that the ranges are in.
        ranges: The computed ranges, by their keys.
    """

    table: str
    ranges: dict[str, RangeRecord] = Field(default_factory=dict)


def read_record(loaded: LoadedPipeline, name: str, table: str | None) -> dict[str, RangeRecord]:
    """Return what the ranges of a set were computed from, by key.

    Args:
        loaded: The pipeline that declares the set.
        name: Name of the set.
        table: Id of the set's Delta table as it is now; None if there is none.

    Returns:
        Empty if nothing was computed, or the table is another one now.

    Raises:
        StateError: The record is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    found = _folder(loaded).read(_file(name), SetRecord)
    return {} if found is None or found.table != table else dict(found.ranges)


def write_ranges(
    loaded: LoadedPipeline,
    name: str,
    table: str,
    commit: int,
    ranges: Mapping[str, RangeRecord | None],
) -> None:
    """Record ranges of a set, and leave the others, and those of later commits, as they are.

    Of two that write at the same time one may lose its ranges: these are computed again then.

    Args:
        loaded: The pipeline that declares the set.
        name: Name of the set.
        table: Id of its Delta table.
        commit: Version of the table that has these ranges.
        ranges: The ranges, by key; None for one that has no rows any more.

    Raises:
        StateError: The record is damaged, or can't be written.
        UnavailableError: The state's store does not answer.
    """
    known = read_record(loaded, name, table)
    for key, each in ranges.items():
        if key in known and known[key].commit > commit:
            continue
        known.pop(key, None)
        if each is not None:
            known[key] = each.model_copy(update={"commit": commit})
    _folder(loaded).replace(_file(name), SetRecord(table=table, ranges=dict(sorted(known.items()))))


def _folder(loaded: LoadedPipeline) -> Folder:
    return loaded.state.folder("training")


def _file(name: str) -> str:
    return f"{name}.json"
