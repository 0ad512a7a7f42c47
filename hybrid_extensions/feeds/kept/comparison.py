"""Comparison of what a feed served with what training takes for the same times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hybrid_extensions.comparison.compared_tables import open_target
from hybrid_extensions.comparison.duckdb_database import MEMORY_LIMIT, open_database
from hybrid_extensions.feeds.declare import AnyFeed, Keep
from hybrid_extensions.feeds.feed_record import (
    ServedLookups,
    feed_folder,
    read_record,
    update_record,
)
from hybrid_extensions.feeds.kept.kept_record import KeptRecord, read_kept
from hybrid_extensions.feeds.kept.kept_table import is_own
from hybrid_extensions.feeds.kept.lookups import (
    Lateness,
    Names,
    Period,
    copy_deliveries,
    create_lookups,
    lateness,
)
from sources.common.counting import counted
from sources.common.durations import DAY_MS
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError, StateError, leaving
from sources.generations import acting_on

if TYPE_CHECKING:
    from hybrid_extensions.training.served_values import Agreement

SAMPLE = 10_000
"""Look-ups of random keys at random times."""


@dataclass(frozen=True)
class ServedAsTrained:
    """Comparison of what look-ups in a sink found with what training takes for their times.

    Attributes:
        agreement: The look-ups, and how many found what training takes.
        unknown: Number of further look-ups of which it is not known what they found: within a
            delivery, or before the first kept delivery of their key.
        late: How late rows were in the sink.
        since_ms: Time of the first look-up, in ms since 1970.
        until_ms: Time of the last one, in ms since 1970.
        max_different: Largest share that may differ, as declared; None if any may.
    """

    agreement: Agreement
    unknown: int
    late: Lateness
    since_ms: int
    until_ms: int
    max_different: float | None

    @property
    def compared(self) -> int:
        """Number of look-ups that were compared."""
        return self.agreement.changes + self.agreement.random

    @property
    def different(self) -> int:
        """Number of compared look-ups that found another value."""
        return self.compared - self.agreement.changes_equal - self.agreement.random_equal

    @property
    def share(self) -> float:
        """Share of compared look-ups that found what training takes, 0 to 1; 1 if none was."""
        return 1 - self.different / self.compared if self.compared else 1.0

    @property
    def is_within(self) -> bool:
        """Whether no larger share differs than is declared; True if none is declared."""
        limit = self.max_different
        return limit is None or self.different <= limit * self.compared


@leaving("No row was changed.")
def compare_served(
    loaded: LoadedPipeline, feed: AnyFeed, *, days: int | None = None, seed: int = 0
) -> ServedAsTrained:
    """Compare what a feed served with what training takes, and record the result in the state.

    For each change of a key, and for random keys at random times: what a look-up in the sink would
    have found at that moment, by the kept deliveries, and the last row that was known then, as a
    training set would get it from the table as it is now.

    Args:
        loaded: The pipeline.
        feed: The feed, one of the pipeline's.
        days: Days before now that are compared; None for all that are kept.
        seed: Seed of the random look-ups.

    Raises:
        InputError: The feed declares no ``keep``; the table that training reads holds the latest
            values only, or lacks columns; or a table can't be read.
        StateError: Nothing is kept or computed yet, or the state is damaged.
        UnavailableError: A store does not answer.
    """
    # Only this comparison needs the other extension.
    try:
        from hybrid_extensions.training import point_in_time, served_values  # noqa: PLC0415
    except ModuleNotFoundError as error:
        message = "The extension `training` is not installed, which says what training takes."
        hint = "Restore its folder in `hybrid_extensions`, then compare again."
        raise InputError(message, hint) from error

    keep = _keep_of(feed)
    acting = acting_on(loaded, as_kept=True)
    trained = _trained_on(acting, feed, keep)
    key = acting.pipeline.sink.key
    names = Names(
        served_values.LOOKUPS, point_in_time.NUMBER, served_values.AT, served_values.IS_CHANGE
    )
    with (
        TemporaryDirectory(prefix="hybrid-feed-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        place = loaded.place(keep.path)
        table = open_target(place)
        record = read_kept(feed_folder(loaded, feed.name))
        if table is None or not record.number or record.table != place.url:
            message = f"No delivery of feed `{feed.name}` is kept in {place} yet."
            hint = f"Deliver what there is: `hybrid feed P --once --name {feed.name}`."
            raise StateError(message, hint, table=place.url)
        period = _period(loaded, feed, record, days)
        there = [each.name for each in table.schema().fields]
        delivered = feed.columns or _columns(acting)
        values = [
            each for each in delivered if each in there and each not in key and not is_own(each)
        ]
        copy_deliveries(connection, table, key, values)
        unknown = create_lookups(connection, names, key, values, period, sample=SAMPLE, seed=seed)
        late = lateness(connection, period)
        agreement = served_values.compare_lookups(connection, trained, key, keep.known_at)
    found = ServedAsTrained(
        agreement, unknown, late, period.since_ms, period.until_ms, keep.max_different
    )
    served = ServedLookups(
        at_ms=now_ms(),
        compared=found.compared,
        different=found.different,
        p99_s=late.p99_s,
        is_within=found.is_within,
    )
    update_record(loaded, feed.name, served=served)
    return found


def served_in_words(feed: AnyFeed, found: ServedAsTrained) -> str:
    """Return the result of a comparison as some lines."""
    agreement, late = found.agreement, found.late
    equal = agreement.changes_equal + agreement.random_equal
    lines = [
        f"{feed.name}: {equal:,} of {counted(found.compared, 'look-up')} found what training "
        f"takes, {_percent(found.share)}: {agreement.changes_equal:,} of {agreement.changes:,} at "
        f"a change of their key, {agreement.random_equal:,} of {agreement.random:,} at random "
        "times."
    ]
    if found.unknown:
        lines.append(
            f"Of {counted(found.unknown, 'further look-up')} it is not known what they found: they "
            "are within a delivery, or before the first kept one of their key."
        )
    for name, share in agreement.columns.items():
        if share < 1:
            lines.append(f"Column {name}: {_percent(share)} are equal.")
    for each in agreement.examples:
        parts = (
            f"{name} was served as {_value(each.served[name])}, and is trained as "
            f"{_value(each.trained[name])}"
            for name in each.served
        )
        lines.append(f"Key {each.key} at {each.at}: {'; '.join(parts)}.")
    if agreement.not_compared:
        columns = ", ".join(agreement.not_compared)
        lines.append(f"Not compared, as the table that training reads lacks them: {columns}.")
    if late.rows:
        lines.append(
            f"From their commit to the sink it took {late.median_s:,.1f} s for half of "
            f"{counted(late.rows, 'changed row')}, {late.p99_s:,.1f} s for 99 %, and "
            f"{late.worst_s:,.1f} s at most."
        )
    if not found.is_within:
        assert found.max_different is not None
        lines.append(f"More differ than `max_different` allows, {_percent(found.max_different)}.")
    return "\n".join([*lines, *agreement.notes])


def _keep_of(feed: AnyFeed) -> Keep:
    if feed.keep is None:
        message = (
            f"Feed `{feed.name}` does not keep what it delivers, so nobody knows what it served."
        )
        hint = (
            "Declare where, `keep: {path: FOLDER}`, and let it deliver; compare what was served "
            "from then on."
        )
        raise InputError(message, hint, field="feeds", value=feed.name)
    return feed.keep


def _trained_on(acting: LoadedPipeline, feed: AnyFeed, keep: Keep) -> LoadedPipeline:
    """Return the pipeline whose table training reads, as its serving generation declares it."""
    if keep.trained_on is not None:
        return acting_on(load_pipeline(Path(keep.trained_on)), as_kept=True)
    if acting.pipeline.sink.mode == "append":
        return acting
    message = (
        f"Feed `{feed.name}` can't be compared with its own table, which holds the latest value of "
        f"each key only (`sink.mode: {acting.pipeline.sink.mode}`): training can't take from it "
        "what was known at a time."
    )
    hint = (
        "Name in the feed's `keep` the pipeline whose table keeps all values, with `sink.history` "
        "or `sink.mode: append`: `{path: …, trained_on: other.yaml}`. Then compare again."
    )
    raise InputError(message, hint, field="feeds", value=feed.name)


def _columns(acting: LoadedPipeline) -> list[str]:
    table = open_target(acting.target)
    return [] if table is None else [each.name for each in table.schema().fields]


def _period(loaded: LoadedPipeline, feed: AnyFeed, record: KeptRecord, days: int | None) -> Period:
    """Return the times for which it is known what the sink had."""
    until_ms = now_ms()
    since_ms = 0 if days is None else until_ms - days * DAY_MS
    if record.pending is not None:
        until_ms = record.pending.begun_ms
    followed = read_record(loaded, feed.name)
    number = None if followed is None else followed.number
    if record.complete is None or number != record.complete.number:
        # What came after it may not have been kept.
        until_ms = min(until_ms, record.delivered_ms)
    return Period(since_ms, until_ms)


def _percent(share: float) -> str:
    # Rounded down, so that only all of them are 100 %.
    return f"{int(share * 10_000) / 100:g} %"


def _value(text: str | None) -> str:
    return "nothing" if text is None else text
