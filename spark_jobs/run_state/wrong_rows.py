"""Wrong rows of a mirror, by key, until a good change or a repair; beyond 1,000 only counted.

Kept by the key of the changes' records, until a later change of the same key was read that has all
values, or the table was repaired. So a quarantine in a mirror is red for as long as the mirror is
wrong.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import NamedTuple

from pydantic import Field

from sources.common.state_document import Part, Record
from sources.storage.folder import Folder
from spark_jobs.run_state.repairs import read_repairs

MOST_KEYS = 1000
"""Keys that are kept; further ones are only counted, and stay wrong until a new generation."""


class WrongRow(Part):
    """Where the last unreadable change of a row is.

    Attributes:
        partition: Partition of the topic.
        offset: Offset of the change.
        batch: Number of the micro-batch.
    """

    partition: int
    offset: int
    batch: int


class WrongRows(Record):
    """State document of a generation: rows of one source that are stale or missing in the target.

    A change of them could not be read, and was left out.

    Attributes:
        keys: Last unreadable change by key of the row's records, in base64.
        unknown: Number of unreadable changes that have no key, or came after the first 1,000 keys.
        last_batch: Number of the last micro-batch that is counted; -1 if none is.
    """

    keys: dict[str, WrongRow] = Field(default_factory=dict)
    unknown: int = 0
    last_batch: int = -1

    @property
    def count(self) -> int:
        """Number of wrong rows."""
        return len(self.keys) + self.unknown

    @property
    def record_keys(self) -> set[bytes]:
        """Keys of the wrong rows, as in the records of their changes; empty for none."""
        return {base64.b64decode(key) for key in self.keys}


class Change(NamedTuple):
    """Change of a row that matters for :class:`WrongRows`, as a micro-batch has reported it.

    Attributes:
        partition, offset: Its place in the topic.
        key: Key of its record; None if it has none, or it is not known.
        is_wrong: Whether it could not be read; False for a good change of a row that was wrong.
    """

    partition: int
    offset: int
    key: bytes | None
    is_wrong: bool


def document_name(source: str) -> str:
    """Return the path of a source's :class:`WrongRows`, relative to the generation's folder."""
    return f"bad/{source}-wrong-rows.json"


def read_wrong_rows(generation: Folder, source: str) -> WrongRows:
    """Read which rows of a source are wrong in the target, without those repaired since.

    Empty if there are none.

    Raises:
        StateError: A document is damaged.
        UnavailableError: The state's store does not answer.
    """
    kept = kept_wrong_rows(generation, source)
    if (righted := read_repairs(generation).righted.get(source)) is None:
        return kept
    keys = {key: row for key, row in kept.keys.items() if row.batch > righted.batch}
    return kept.model_copy(update={"keys": keys, "unknown": kept.unknown - righted.unknown})


def kept_wrong_rows(generation: Folder, source: str) -> WrongRows:
    """Read which rows of a source were recorded as wrong, whatever was repaired since.

    Raises:
        StateError: The document is damaged.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(document_name(source), WrongRows) or WrongRows()


def keep_wrong_rows(
    generation: Folder, source: str, batch: int, changes: Iterable[Change]
) -> WrongRows:
    """Add a micro-batch's unreadable changes to the wrong rows, and remove rows that got better.

    Writes the state if anything changes; repeating it for a micro-batch changes nothing.

    Args:
        generation: State folder of the generation.
        source: Name of the source.
        batch: Number of the micro-batch.
        changes: Its unreadable changes, and good ones of wrong rows, in any order, also several
            times.

    Returns:
        The wrong rows afterwards, as recorded.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    before = kept_wrong_rows(generation, source)
    keys, unknown = dict(before.keys), 0
    for change in sorted({*changes}, key=lambda each: (not each.is_wrong, each.offset)):
        if change.key is None:
            unknown += change.is_wrong
            continue
        key = base64.b64encode(change.key).decode()
        here = WrongRow(partition=change.partition, offset=change.offset, batch=batch)
        known = keys.get(key)
        if change.is_wrong:
            if known is None and len(keys) >= MOST_KEYS:
                unknown += 1
            elif known is None or _is_later(here, known):
                keys[key] = here
        elif known is not None and _is_later(here, known):
            del keys[key]
    is_new = batch > before.last_batch
    after = WrongRows(
        keys=keys,
        unknown=before.unknown + (unknown if is_new else 0),
        last_batch=max(batch, before.last_batch),
    )
    if (after.keys, after.unknown) != (before.keys, before.unknown):
        generation.replace(document_name(source), after)
    return after


def _is_later(one: WrongRow, other: WrongRow) -> bool:
    """Return whether a change of a row is later than another one of it."""
    if one.partition == other.partition:
        return one.offset > other.offset
    # Partitions were added to the topic.
    return one.batch > other.batch
