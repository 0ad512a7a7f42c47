"""Records of feeds in the state: how far each sink is, and when it is late or not healthy."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from hybrid_extensions.feeds.declare import AnyFeed, feeds_of
from sources.common.counting import counted
from sources.common.state_document import Part, Record
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport, HybridError
from sources.storage.folder import Folder
from sources.storage.tables.delta_log import has_log
from spark_jobs.table.commit_log import CommitLog
from spark_jobs.table.delta_table import version_of

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


class FeedStatus(BaseModel):
    """Progress of a feed.

    Attributes:
        name: Name of the feed.
        type: Type of the feed, such as ``postgres``.
        number: Version of the table that the sink has; None if it has none.
        newest: Newest version of the table; None if there is none, or it can't be read.
        behind: Number of versions that the sink lacks; None if that is not known.
        lag_s: Seconds since the oldest commit that the sink lacks; 0 if it lacks none, None if that
            is not known.
        looked_ms: When its follower looked at the table last, in ms since 1970; None if never.
        followed_until_ms: Until when a process that follows the table is expected to look again, in
            ms since 1970; 0 if none does.
        failure: Why that look failed; None if it did not.
        compared: The last comparison of the sink with the table; None if there was none.
        served: The last comparison of what was served with what training takes; None if there was
            none.
        is_healthy: Whether the sink lacks no commit for longer than ``max_lag``, agreed with the
            table when it was compared last, and did not serve other values than training takes
            more often than is declared.
        text: The progress as a sentence.
    """

    name: str
    type: str
    number: int | None = None
    newest: int | None = None
    behind: int | None = None
    lag_s: float | None = None
    looked_ms: int | None = None
    followed_until_ms: int = 0
    failure: ErrorReport | None = None
    compared: Compared | None = None
    served: ServedLookups | None = None
    is_healthy: bool
    text: str


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


def feed_statuses(loaded: LoadedPipeline) -> list[FeedStatus]:
    """Return the progress of each declared feed, from the state and the table's log.

    Sinks are not asked. A table that can't be read raises nothing: the feeds are then not healthy.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    feeds = feeds_of(loaded)
    if not feeds:
        return []
    try:
        newest = version_of(loaded.target) if has_log(loaded.target) else None
    except HybridError as error:
        return _unknown(feeds, error)
    try:
        return [_status(loaded, feed, newest) for feed in feeds]
    except OSError as error:
        # A commit that is there and can't be read.
        return _unknown(feeds, error)


def _unknown(feeds: Sequence[AnyFeed], error: Exception) -> list[FeedStatus]:
    text = f"The feed's progress is not known. {error}"
    return [
        FeedStatus(name=each.name, type=each.type, is_healthy=False, text=text) for each in feeds
    ]


def _status(loaded: LoadedPipeline, feed: AnyFeed, newest: int | None) -> FeedStatus:
    record = read_record(loaded, feed.name)
    number = None if record is None else record.number
    behind: int | None = None
    lag_s: float | None = None
    if newest is not None and number is not None and number <= newest:
        behind = newest - number
        commit = CommitLog(loaded.target).read(number + 1) if behind else None
        if not behind:
            lag_s = 0.0
        elif commit is not None and commit.at_ms:
            lag_s = max(now_ms() - commit.at_ms, 0) / 1000
    limit_s = feed.max_lag.total_seconds()
    is_late = newest is not None and (lag_s is None or lag_s > limit_s)
    failure = None if record is None else record.failure
    compared = None if record is None else record.compared
    differs = compared is not None and not compared.agrees
    # Without `keep` the result of before says nothing about the present.
    served = None if record is None or feed.keep is None else record.served
    is_within = served is None or served.is_within
    return FeedStatus(
        name=feed.name,
        type=feed.type,
        number=number,
        newest=newest,
        behind=behind,
        lag_s=lag_s,
        looked_ms=None if record is None else record.looked_ms,
        followed_until_ms=0 if record is None else record.followed_until_ms,
        failure=failure,
        compared=compared,
        served=served,
        is_healthy=not is_late and not differs and is_within,
        text=_text(newest, behind, lag_s, record, served),
    )


def _text(
    newest: int | None,
    behind: int | None,
    lag_s: float | None,
    record: FeedRecord | None,
    served: ServedLookups | None,
) -> str:
    if newest is None:
        return "There is no table yet."
    number = None if record is None else record.number
    if record is None or number is None:
        text = "Nothing is delivered yet: run `hybrid feed P`."
    elif behind is None:
        text = (
            f"It has version {number}, and the table {newest}: its next delivery loads the whole "
            "table."
        )
    elif not behind:
        text = f"It has the newest version, {number}."
    else:
        age = "" if lag_s is None else f", the oldest of them for {lag_s:,.0f} s"
        text = f"It has version {number}, and lacks {behind}{age}."
    if record is not None and record.compared is not None and not record.compared.agrees:
        text = f"{text} It differed from the table when it was compared."
    if served is not None:
        text = f"{text} {_served_text(served)}"
    return text if record is None or record.failure is None else f"{text} {record.failure}"


def _served_text(served: ServedLookups) -> str:
    """Return the last comparison with training as a sentence."""
    lookups = counted(served.compared, "look-up")
    if not served.different:
        return f"Of {lookups} each found what training takes."
    found = f"{served.different:,} of {lookups} did not find what training takes"
    return f"{found}." if served.is_within else f"{found}: more than `max_different` allows."
