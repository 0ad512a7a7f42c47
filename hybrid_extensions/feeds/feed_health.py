"""When a feed is healthy: its sink is not late, agrees with the table, and serves what is trained.

From the state and the table's log; sinks are not asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from hybrid_extensions.feeds.declare import AnyFeed, feeds_of
from hybrid_extensions.feeds.feed_record import Compared, FeedRecord, ServedLookups, read_record
from sources.common.counting import counted
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport, HybridError
from sources.storage.tables.delta_log import has_log
from spark_jobs.table.commit_log import CommitLog
from spark_jobs.table.delta_table import version_of


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
