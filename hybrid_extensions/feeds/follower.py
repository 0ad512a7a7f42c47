"""Follower of a feed: it brings a sink from its version of the table to the newest one.

One rule decides between changes and a load: if the sink's version is the same commit of the same
table, of the same generation and in the same form, what differs is worked out from the files; in
any other case, and if a file that this needs is gone, the whole table is loaded, and what the sink
has besides it is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple, Self

import pyarrow as pa
from deltalake import DeltaTable

from hybrid_extensions.feeds.base import Comparison, FeedSink
from hybrid_extensions.feeds.declare import AnyFeed, feed_of
from hybrid_extensions.feeds.delivery import DELETED
from hybrid_extensions.feeds.feed_record import feed_folder
from hybrid_extensions.feeds.kept.keeper import Keeper
from hybrid_extensions.feeds.kinds import open_sink
from hybrid_extensions.feeds.needed_load import why_not_from
from hybrid_extensions.feeds.position import Held, Position, commit_of, position_of
from hybrid_extensions.feeds.rows import CannotFollow, Rows, all_rows, changed_rows
from sources.common.schema import normalize_schema
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError
from sources.generations import acting_on
from sources.storage.tables.delta_log import commit_name, has_log
from spark_jobs.table.commit_log import CommitLog
from spark_jobs.table.delta_table import open_table


class DeliveryOutcome(NamedTuple):
    """Result of a call of :meth:`Follower.deliver`.

    Attributes:
        kind: ``none`` if the sink has the newest version, or if there is no table yet; ``changes``,
            or ``load`` of the whole table.
        number: Version that the sink has now; None if there is no table yet.
        rows: Number of rows that were delivered, deletes included.
        why: Why the whole table was loaded, as a clause; empty otherwise.
    """

    kind: Literal["none", "changes", "load"]
    number: int | None
    rows: int = 0
    why: str = ""


class Follower:
    """Follower of one feed; a context manager that closes the sink's connections.

    Args:
        loaded: The pipeline, whose file is read again for each delivery.
        feed: The feed to follow, one of the pipeline's.
    """

    def __init__(self, loaded: LoadedPipeline, feed: AnyFeed) -> None:
        self._loaded, self._feed = loaded, feed
        self._table = loaded.target
        self._key: list[str] = []
        self._sink: FeedSink | None = None
        self._keeper: Keeper | None = None
        self._seen: Position | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the sink's connections; the next delivery opens them again."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def has_news(self) -> bool:
        """Return whether there may be rows to deliver, by a look at the table's log alone.

        True before the first delivery.

        Raises:
            UnavailableError: The store of the table does not answer.
        """
        if (seen := self._seen) is None or self._table.exists(commit_name(seen.number + 1)):
            return True
        return commit_of(self._table, seen.number) != seen.commit

    def deliver(self, *, reload: bool = False) -> DeliveryOutcome:
        """Bring the sink to the newest version of the table; an interrupted delivery is completed.

        Args:
            reload: Load the whole table, whatever the sink has.

        Returns:
            What was done, of kind ``none`` if there is no table yet or nothing new; after a
            delivery that was begun before, there may be more to do.

        Raises:
            InputError: The declaration, the table or the sink does not allow the delivery.
            StateError: Another follower feeds the sink, or the state is damaged.
            UnavailableError: The sink, or the store of the table, does not answer.
        """
        self._seen = None
        key = self._read_declaration()
        if not has_log(self._table):
            return DeliveryOutcome("none", None)
        table = open_table(self._table)
        columns = self._columns(table, key)
        now = position_of(self._table, table, columns, key)
        sink = self._opened(key)
        if self._keeper is not None:
            self._keeper.open(columns, key)
        held = sink.held(columns)
        if self._keeper is not None:
            self._keeper.settle(held)
        if reload:
            return self._load(sink, held, table, now, columns, "it was asked for")
        if held.delivered is None:
            return self._load(sink, held, table, now, columns, "nothing is delivered yet")
        if held.delivered == now and held.pending is None:
            self._keep_all(now, columns)
            self._seen = now
            return DeliveryOutcome("none", now.number)
        return self._bring(sink, held, held.delivered, table, now, columns)

    def compare(self, sample: int) -> Comparison:
        """Compare randomly chosen rows of the table with those of the sink.

        Nothing is delivered. The version is the one that the sink has.

        Args:
            sample: Largest number of rows to compare.

        Raises:
            InputError: The sink's rows can't be looked up by key; the sink does not have a version
                that the table still has; or as :meth:`deliver`.
            StateError: The sink was fed meanwhile, or the state is damaged.
            UnavailableError: The sink, or the store of the table, does not answer.
        """
        key = self._read_declaration()
        newest = open_table(self._table)
        columns = self._columns(newest, key)
        sink = self._opened(key)
        with sink.standing_still(columns) as held:
            at = held.delivered
            now = position_of(self._table, newest, columns, key)
            why: str | None = (
                "nothing is delivered yet" if held.pending is None else "a delivery is not complete"
            )
            if at is not None and held.pending is None:
                why = why_not_from(at, now, commit_of(self._table, at.number))
            if at is None or why is not None:
                message = f"Feed `{self._feed.name}` can't be compared now: {why}."
                hint = "Deliver what there is, and compare again: `hybrid feed P --once`."
                raise InputError(message, hint, field="feeds", value=self._feed.name)
            table = open_table(self._table, at.number)
            with all_rows(table, self._key, columns) as rows:
                total = len(rows)
                different, examples, found = sink.compare(rows.read(sink.form, sample))
        return Comparison(at.number, min(sample, total), different, examples, total, found)

    def _bring(
        self,
        sink: FeedSink,
        held: Held,
        start: Position,
        table: DeltaTable,
        now: Position,
        columns: pa.Schema,
    ) -> DeliveryOutcome:
        """Deliver the changes since a position, or load the table where they are not known."""
        why = why_not_from(start, now, commit_of(self._table, start.number))
        end = now
        if why is None and held.pending is not None:
            # A row that changed, was delivered, and changed back, is not among the changes to now.
            end = held.pending
            if end.commit != commit_of(self._table, end.number):
                why = f"version {end.number}, of which a part was delivered, is gone"
            else:
                table = open_table(self._table, end.number)
        if why is None:
            try:
                self._keep_all(start, columns)
            except InputError as error:
                why = str(error)
        if why is None:
            try:
                with (
                    changed_rows(self._table, start.number, table, self._key, columns) as rows,
                    self._kept(rows, start, end, is_load=False),
                ):
                    if held.pending is None:
                        sink.begin(end)
                    sink.apply(rows.read(sink.form), end)
                    return DeliveryOutcome("changes", end.number, len(rows))
            except CannotFollow as error:
                why = str(error)
        return self._load(sink, held, open_table(self._table, now.number), now, columns, why)

    def _load(
        self,
        sink: FeedSink,
        held: Held,
        table: DeltaTable,
        now: Position,
        columns: pa.Schema,
        why: str,
    ) -> DeliveryOutcome:
        with (
            all_rows(table, self._key, columns) as rows,
            self._kept(rows, held.delivered, now, is_load=True),
        ):
            sink.load(rows.read(sink.form), now)
            return DeliveryOutcome("load", now.number, len(rows), why)

    def _kept(
        self, rows: Rows, start: Position | None, end: Position, *, is_load: bool
    ) -> AbstractContextManager[None]:
        """Return the context of a delivery, which is kept at its end if the feed declares that."""
        if self._keeper is None:
            return nullcontext()
        if is_load or start is None:
            return self._keeper.delivery(rows, "load", start, end)
        first = CommitLog(self._table).read(start.number + 1)
        committed_ms = None if first is None else first.at_ms or None
        return self._keeper.delivery(rows, "changes", start, end, committed_ms=committed_ms)

    def _keep_all(self, position: Position, columns: pa.Schema) -> None:
        """Keep all rows that the sink has at its position, if not all deliveries up to it were."""
        if self._keeper is not None and self._keeper.lacks(position):
            table = open_table(self._table, position.number)
            with all_rows(table, self._key, columns) as rows:
                self._keeper.keep_all(rows, position)

    def _read_declaration(self) -> list[str]:
        """Read the pipeline's file again; return the key of the generation that readers see."""
        loaded = load_pipeline(self._loaded.path)
        feed = feed_of(loaded, self._feed.name)
        if feed != self._feed:
            self.__exit__()
        self._loaded, self._feed = loaded, feed
        acting = acting_on(loaded)
        self._table = acting.target
        return acting.pipeline.sink.key

    def _opened(self, key: Sequence[str]) -> FeedSink:
        if self._sink is None or list(key) != self._key:
            self.__exit__()
            self._key = list(key)
            folder = feed_folder(self._loaded, self._feed.name)
            self._sink = open_sink(self._feed, self._loaded, key, folder)
            if self._feed.keep is not None:
                self._keeper = Keeper(self._loaded, self._feed, folder)
        return self._sink

    def _columns(self, table: DeltaTable, key: Sequence[str]) -> pa.Schema:
        """Return the columns that are delivered, the key first."""
        found = normalize_schema(pa.schema(table.schema().to_arrow()))
        names = [*key, *(name for name in self._feed.columns or found.names if name not in key)]
        for name in names:
            if name not in found.names:
                what, hint = (
                    "`sink.key`",
                    "Correct `sink.key`, or let the transform return the column.",
                )
                if name not in key:
                    what = f"`columns` of feed `{self._feed.name}`"
                    hint = "Correct `columns`, or remove it, so that all columns are delivered."
                message = (
                    f"{what} names `{name}`, which the table does not have; it has "
                    f"{', '.join(found.names)}. Nothing was delivered."
                )
                raise InputError(message, hint, field="feeds", column=name)
        if DELETED in names:
            message = (
                f"The table has a column `{DELETED}`, a name that feeds need for themselves. "
                "Nothing was delivered."
            )
            hint = "Rename it in the transform, or name the other columns in the feed's `columns`."
            raise InputError(message, hint, field="feeds", column=DELETED)
        return pa.schema([found.field(name) for name in names])
