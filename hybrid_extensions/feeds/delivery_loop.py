"""Loop of `hybrid feed`: a thread for each feed; a failed delivery is tried again in 1 to 60 s."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from hybrid_extensions.feeds.base import AGAIN, REPEATED, Comparison
from hybrid_extensions.feeds.declare import AnyFeed
from hybrid_extensions.feeds.feed_record import (
    Compared,
    FeedRecord,
    read_record,
    update_record,
    write_record,
)
from hybrid_extensions.feeds.follower import DeliveryOutcome, Follower
from sources.common.counting import counted
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport, HybridError, UnavailableError, leaving

_SEEN_MS = 10_000
"""Milliseconds between two records of a feed that has nothing new."""
_EXPECTED_MS = 150_000
"""Milliseconds until a follower that is there has looked again, also after failures."""
_AGAIN_S = (1.0, 60.0)
"""Seconds before a failed delivery is tried again: at first, and at most."""

Say = Callable[[str], None]


@leaving("The table of the pipeline was not changed.")
def deliver_once(loaded: LoadedPipeline, feed: AnyFeed, *, reload: bool = False) -> DeliveryOutcome:
    """Bring a sink to the newest version of the table, and record the result in the state.

    Args:
        loaded: The pipeline.
        feed: The feed, one of the pipeline's.
        reload: Load the whole table, whatever the sink has.

    Returns:
        The last delivery that was made; one of kind ``none`` if there was nothing to deliver.

    Raises:
        HybridError: As :meth:`hybrid_extensions.feeds.follower.Follower.deliver`; it is recorded,
            too.
    """
    with Follower(loaded, feed) as follower:
        return _catch_up(loaded, feed, follower, reload=reload)


@leaving("No row was changed.")
def compare(loaded: LoadedPipeline, feed: AnyFeed, sample: int) -> Comparison:
    """Compare some rows of the table with those of a sink, and record the result in the state.

    Args:
        loaded: The pipeline.
        feed: The feed, one of the pipeline's.
        sample: Largest number of rows to compare, chosen at random.

    Raises:
        HybridError: As :meth:`hybrid_extensions.feeds.follower.Follower.compare`.
    """
    with Follower(loaded, feed) as follower:
        found = follower.compare(sample)
    compared = Compared(
        at_ms=now_ms(),
        number=found.number,
        rows=found.compared,
        share=found.share,
        agrees=found.agrees,
    )
    update_record(loaded, feed.name, compared=compared)
    return found


def compared_in_words(feed: AnyFeed, found: Comparison) -> str:
    """Return the result of a sink's comparison with the table as a sentence."""
    text = (
        f"{feed.name}: {found.compared - found.different:,} of {counted(found.compared, 'row')} "
        f"that were compared agree at version {found.number}"
    )
    if found.rows != found.sink_rows:
        text = f"{text}; the table has {counted(found.rows, 'row')}, the sink {found.sink_rows:,}"
    if found.examples:
        text = f"{text}. These differ: {', '.join(found.examples)}"
    return f"{text}."


def follow(
    loaded: LoadedPipeline, feeds: Sequence[AnyFeed], stop: threading.Event, say: Say
) -> list[threading.Thread]:
    """Start threads that follow the table for some feeds, until an event is set; return at once.

    A delivery that fails is tried again after 1 s to 60 s, whatever the reason.

    Args:
        loaded: The pipeline.
        feeds: The feeds.
        stop: Ends the threads, after the delivery that is under way.
        say: Called with a line of text for each delivery and each failure, by several threads.

    Returns:
        The threads, one for each feed.
    """
    threads = [
        threading.Thread(
            target=_follow, args=(loaded, feed, stop, say), name=f"feed {feed.name}", daemon=True
        )
        for feed in feeds
    ]
    for each in threads:
        each.start()
    return threads


def in_words(feed: AnyFeed, outcome: DeliveryOutcome) -> str:
    """Return the result of a delivery as a sentence."""
    if outcome.number is None:
        return f"{feed.name}: there is no table yet."
    if outcome.kind == "none":
        return f"{feed.name}: version {outcome.number} is delivered."
    if outcome.kind == "load":
        rows = counted(outcome.rows, "row")
        return f"{feed.name}: version {outcome.number} was loaded, {rows}, as {outcome.why}."
    return f"{feed.name}: version {outcome.number}, {counted(outcome.rows, 'changed row')}."


def _follow(loaded: LoadedPipeline, feed: AnyFeed, stop: threading.Event, say: Say) -> None:
    pace_s = max(feed.every.total_seconds(), loaded.target.pace_s)
    again_s = _AGAIN_S[0]
    with Follower(loaded, feed) as follower:
        known: int | None = None
        while not stop.is_set():
            begun_s = time.monotonic()
            try:
                if follower.has_news():
                    outcome = _catch_up(loaded, feed, follower, follows=True)
                    if outcome.number != known:
                        say(in_words(feed, outcome))
                    known = outcome.number
                else:
                    _record(loaded, feed, DeliveryOutcome("none", known), None, follows=True)
                again_s = _AGAIN_S[0]
                stop.wait(max(pace_s - (time.monotonic() - begun_s), 0))
            # An exception would end the thread without being reported.
            except Exception as error:
                follower.__exit__()
                say(f"{feed.name}: {error}")
                stop.wait(again_s)
                again_s = min(again_s * 2, _AGAIN_S[1])


def _catch_up(
    loaded: LoadedPipeline,
    feed: AnyFeed,
    follower: Follower,
    *,
    reload: bool = False,
    follows: bool = False,
) -> DeliveryOutcome:
    """Deliver until there is nothing more; return the last outcome that delivered something."""
    done: DeliveryOutcome | None = None
    try:
        while True:
            outcome = follower.deliver(reload=reload and done is None)
            _record(loaded, feed, outcome, None, follows=follows)
            if outcome.kind == "none":
                return done or outcome
            done = outcome
    except Exception as error:
        known = error if isinstance(error, HybridError) else _unknown(error)
        _record(loaded, feed, None, known.report(), follows=follows)
        raise known from error


def _unknown(error: Exception) -> HybridError:
    why = str(error).strip().rstrip(".") or type(error).__name__
    message = f"The feed failed for a reason that is not foreseen: {why}."
    hint = f"Correct what the message names. {REPEATED} {AGAIN}"
    return UnavailableError(message, hint)


def _record(
    loaded: LoadedPipeline,
    feed: AnyFeed,
    outcome: DeliveryOutcome | None,
    failure: ErrorReport | None,
    *,
    follows: bool,
) -> None:
    at_ms = now_ms()
    before = read_record(loaded, feed.name) or FeedRecord(looked_ms=0)
    changed: dict[str, object] = {"looked_ms": at_ms, "failure": failure}
    if follows:
        changed["followed_until_ms"] = at_ms + _EXPECTED_MS
    if outcome is not None:
        changed["number"] = outcome.number
        if outcome.kind != "none":
            changed["delivered_ms"] = at_ms
        if outcome.kind == "load":
            # A load repairs what a comparison has found.
            changed |= {"loaded_ms": at_ms, "why_loaded": outcome.why, "compared": None}
    after = before.model_copy(update=changed)
    times = {"looked_ms": 0, "followed_until_ms": 0}
    is_same = before.model_copy(update=times) == after.model_copy(update=times)
    # The clock may have been set back.
    if not is_same or abs(at_ms - before.looked_ms) > max(_SEEN_MS, loaded.state.pace_s * 6000):
        write_record(loaded, feed.name, after)
