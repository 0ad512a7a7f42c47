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
        commit: Digest of the version's commit; empty in documents of older versions.
    """

    version: int
    digest: str
    commit: str = ""


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
    """What the ranges of a training set were computed from.

    Ranges are written after their commit, and removed before it: what a process that was killed in
    between has made of them is not known.

    Attributes:
        table: Id of the Delta table that the ranges are in.
        by: Length of the ranges, such as ``day``; empty in documents of older versions.
        ranges: The computed ranges, by their keys.
    """

    table: str
    by: str = ""
    ranges: dict[str, RangeRecord] = Field(default_factory=dict)


def read_record(loaded: LoadedPipeline, name: str, table: str | None) -> SetRecord:
    """Return what the ranges of a set were computed from.

    Args:
        loaded: The pipeline that declares the set.
        name: Name of the set.
        table: Id of the set's Delta table as it is now; None if there is none.

    Returns:
        Without ranges if nothing was computed, or the table is another one now.

    Raises:
        StateError: The record is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    found = _folder(loaded).read(_file(name), SetRecord)
    return SetRecord(table=table or "") if found is None or found.table != table else found


def write_ranges(  # noqa: PLR0913 - each is another thing
    loaded: LoadedPipeline,
    name: str,
    table: str,
    commit: int,
    ranges: Mapping[str, RangeRecord | None],
    *,
    by: str,
    are_all: bool = False,
) -> None:
    """Record ranges of a set, and leave the others, and those of later commits, as they are.

    Of two that write at the same time one may lose its ranges: these are computed again then.

    Args:
        loaded: The pipeline that declares the set.
        name: Name of the set.
        table: Id of its Delta table.
        commit: Version of the table that has these ranges.
        ranges: The ranges, by key; None for one that has no rows any more, or is being written.
        by: Length of the ranges.
        are_all: Whether the others are forgotten, as the table is written as a whole.

    Raises:
        StateError: The record is damaged, or can't be written.
        UnavailableError: The state's store does not answer.
    """
    known = {} if are_all else dict(read_record(loaded, name, table).ranges)
    for key, each in ranges.items():
        if key in known and known[key].commit > commit:
            continue
        known.pop(key, None)
        if each is not None:
            known[key] = each.model_copy(update={"commit": commit})
    made = SetRecord(table=table, by=by, ranges=dict(sorted(known.items())))
    _folder(loaded).replace(_file(name), made)


def _folder(loaded: LoadedPipeline) -> Folder:
    return loaded.state.folder("training")


def _file(name: str) -> str:
    return f"{name}.json"
