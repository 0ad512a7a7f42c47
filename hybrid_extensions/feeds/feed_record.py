"""Records of feeds in the state: how far each sink is, its last failure and comparisons."""

from __future__ import annotations

from sources.common.state_document import Part, Record
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport
from sources.storage.folder import Folder

_RECORD = "feed.json"


class Compared(Part):
    """Last comparison of a sink with the table.

    Attributes:
        at_ms: When it was made, in ms since 1970.
        number: Version of the table.
        rows: Number of rows that were compared.
        share: Share of the compared rows that are the same in both, from 0 to 1.
        agrees: Whether all compared rows are the same, and both have as many rows.
    """

    at_ms: int
    number: int
    rows: int
    share: float
    agrees: bool


class ServedLookups(Part):
    """Last comparison of what look-ups in a sink found with what training takes.

    Attributes:
        at_ms: When it was made, in ms since 1970.
        compared: Number of look-ups that were compared.
        different: Number of those that found another value.
        p99_s: Seconds from the commit of a row to the sink that 99 % of the changed rows did not
            exceed; None if there were none.
        is_within: Whether no larger share differed than was declared then.
    """

    at_ms: int
    compared: int
    different: int
    p99_s: float | None = None
    is_within: bool = True


class FeedRecord(Record):
    """Last record of a feed by its follower, in the state; the position in the sink is decisive.

    Attributes:
        number: Version of the table that the sink has; None if it has none.
        delivered_ms: When the sink got it, in ms since 1970; None if nothing was delivered.
        loaded_ms: When the whole table was loaded last, in ms since 1970; None if it never was.
        why_loaded: Why it was loaded, as a clause.
        looked_ms: When the follower looked at the table last, in ms since 1970.
        followed_until_ms: Until when a process that follows the table is expected to look again, in
            ms since 1970; 0 if none does.
        failure: Why the last look failed; None if it did not.
        compared: The last comparison of the sink with the table; None if there was none.
        served: The last comparison of what was served with what training takes; None if there was
            none.
    """

    number: int | None = None
    delivered_ms: int | None = None
    loaded_ms: int | None = None
    why_loaded: str = ""
    looked_ms: int
    followed_until_ms: int = 0
    failure: ErrorReport | None = None
    compared: Compared | None = None
    served: ServedLookups | None = None


def feed_folder(loaded: LoadedPipeline, name: str) -> Folder:
    """Return the state folder of a feed, which may not exist."""
    return loaded.state.folder(f"feeds/{name}")


def read_record(loaded: LoadedPipeline, name: str) -> FeedRecord | None:
    """Return the follower's last record of a feed; None if it never ran.

    Raises:
        StateError: The document is damaged.
        UnavailableError: The state's store does not answer.
    """
    return feed_folder(loaded, name).read(_RECORD, FeedRecord)


def write_record(loaded: LoadedPipeline, name: str, record: FeedRecord) -> None:
    """Write a feed's record to the state, replacing the last one.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    feed_folder(loaded, name).replace(_RECORD, record)


def update_record(loaded: LoadedPipeline, name: str, **changed: Part) -> None:
    """Change some fields of a feed's record in the state; a feed without one gets one.

    Args:
        loaded: The pipeline.
        name: Name of the feed.
        changed: New values by name of the field.

    Raises:
        StateError: The record is damaged, or can't be written.
        UnavailableError: The state's store does not answer.
    """
    before = read_record(loaded, name) or FeedRecord(looked_ms=0)
    write_record(loaded, name, before.model_copy(update=changed))
