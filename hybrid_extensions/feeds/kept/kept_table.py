"""Delta table of kept deliveries: one for each feed, with columns of its own; old days go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from hybrid_extensions.comparison.compared_tables import open_target
from hybrid_extensions.feeds.kept.kept_record import PendingDelivery
from sources.common.schema import names_and_types, normalize_schema
from sources.errors import ErrorFields, InputError
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table, unreadable_table

DELETED = "feed_is_deleted"
"""Column: whether the delivery removed the key; the other columns of the target are null then."""
NEW = "feed_is_new"
"""Column: whether the sink did not have the key before; null in a load."""
DELIVERY = "feed_delivery"
"""Column: number of the delivery, which grows."""
KIND = "feed_kind"
"""Column: ``load`` or ``changes``; keys that a load lacks are gone from the sink."""
VERSION = "feed_version"
"""Column: version of the target that the delivery led to."""
COMMITTED = "feed_committed_at"
"""Column: time of the oldest commit of the target that is delivered; null in a load."""
BEGUN = "feed_begun_at"
"""Column: time from which on the row may have been in the sink."""
DELIVERED = "feed_delivered_at"
"""Column: time at which the row was in the sink."""
DAY = "feed_day"
"""Column: day of :data:`DELIVERED` in UTC, by which the table is partitioned."""
_TIME = pa.timestamp("us", "UTC")
_OWN = pa.schema(
    [
        (DELETED, pa.bool_()),
        (NEW, pa.bool_()),
        (DELIVERY, pa.int64()),
        (KIND, pa.string()),
        (VERSION, pa.int64()),
        (COMMITTED, _TIME),
        (BEGUN, _TIME),
        (DELIVERED, _TIME),
        (DAY, pa.date32()),
    ]
)
_FEED, _KEY = "hybrid.feed", "hybrid.feedKey"
_APPLICATION = "hybrid-feed"
_SETTINGS = {
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.logRetentionDuration": "interval 7 days",
}


class KeptTable:
    """Delta table of the deliveries of one feed.

    Args:
        folder: Folder of the table, which need not exist.
        owner: ``<pipeline>.<feed>``, which is unique.
        columns: Columns that are delivered, with the target's types.
        key: Columns that identify a row of the target.

    Attributes:
        rows: Schema of the rows of a delivery: the target's columns, nullable, and two of the
            table's own, :data:`DELETED` and :data:`NEW`.
    """

    def __init__(self, folder: Folder, owner: str, columns: pa.Schema, key: Sequence[str]) -> None:
        self._folder, self._owner, self._key = folder, owner, list(key)
        self._application = f"{_APPLICATION}:{owner}"
        self._fields: ErrorFields = {"table": folder.url, "field": "feeds"}
        self.rows = pa.schema([*(each.with_nullable(True) for each in columns), *list(_OWN)[:2]])
        self._schema = pa.schema([*self.rows, *list(_OWN)[2:]])

    def require(self) -> None:
        """Refuse a folder or columns with which deliveries can't be kept; nothing is written.

        Raises:
            InputError: A column has the name of one of the table's own; or there is a table that
                this feed has not made, or with another key or type of a column.
            UnavailableError: The store does not answer.
        """
        names = self._schema.names
        if taken := [name for name in names[: -len(_OWN)] if name in _OWN.names]:
            message = (
                f"Feed `{self._owner}` delivers a column `{taken[0]}`, a name that the table of "
                "its deliveries needs for itself."
            )
            hint = "Rename it in the transform, or name the other columns in the feed's `columns`."
            raise InputError(message, hint, **self._fields | {"column": taken[0]})
        if (table := open_target(self._folder)) is None:
            return
        settings = table.metadata().configuration
        if settings.get(_FEED) != self._owner:
            message = (
                f"The table {self._folder} is not one of deliveries of feed `{self._owner}`, so "
                "nothing is kept there."
            )
            hint = "Name a folder of its own in `keep: {path: …}` of the feed."
            raise InputError(message, hint, **self._fields)
        now = dict(names_and_types(self._schema))
        held = dict(names_and_types(normalize_schema(pa.schema(table.schema().to_arrow()))))
        other = [name for name, kind in now.items() if held.get(name, kind) != kind]
        if other or settings.get(_KEY) != ",".join(self._key):
            what = (
                f"column `{other[0]}` is {held[other[0]]} there, and {now[other[0]]} now"
                if other
                else f"its key is {settings.get(_KEY)}, and {','.join(self._key)} now"
            )
            message = f"Deliveries of feed `{self._owner}` can't be kept in {self._folder}: {what}."
            hint = (
                "Name another folder in `keep: {path: …}`; earlier deliveries stay where they are."
            )
            raise InputError(message, hint, **self._fields)

    @property
    def number(self) -> int:
        """Number of the last delivery that the table has; 0 if there is none, or no table.

        Raises:
            InputError: There is a table that can't be read.
            UnavailableError: The store does not answer.
        """
        table = open_target(self._folder)
        return 0 if table is None else table.transaction_version(self._application) or 0

    def append(
        self, parts: Iterator[pa.Table], delivery: PendingDelivery, delivered_ms: int
    ) -> None:
        """Add the rows of a delivery in one commit, unless the table has them already.

        Args:
            parts: The rows, with the columns :attr:`rows`.
            delivery: The delivery.
            delivered_ms: When it was in the sink, in ms since 1970.

        Raises:
            InputError: The table can't be written.
            UnavailableError: The store does not answer.
        """
        if self.number >= delivery.number:
            return
        own = {
            DELIVERY: delivery.number,
            KIND: delivery.kind,
            VERSION: delivery.end.number,
            COMMITTED: _time(delivery.committed_ms),
            BEGUN: _time(delivery.begun_ms),
            DELIVERED: _time(delivered_ms),
            DAY: day_of(delivered_ms),
        }
        batches = (batch for part in parts for batch in self._with(part, own).to_batches())
        done = CommitProperties(app_transactions=[Transaction(self._application, delivery.number)])

        def add() -> None:
            write_deltalake(
                self._opened(),
                pa.RecordBatchReader.from_batches(self._schema, batches),
                mode="append",
                schema_mode="merge",
                commit_properties=done,
            )

        self._write(add, "can't be kept")

    def clean(self, today: date, first: date) -> None:
        """Remove the deliveries before a day, and compact those of the days before today.

        Args:
            today: The present day, in UTC.
            first: First day that is kept, in UTC.

        Raises:
            InputError: The table can't be written.
            UnavailableError: The store does not answer.
        """

        def clean() -> None:
            table = self._opened()
            table.delete(f"{DAY} < CAST('{first.isoformat()}' AS DATE)")
            days = pa.table(table.get_add_actions(flatten=True))[f"partition.{DAY}"].to_pylist()
            for day in {each for each in days if each < today and days.count(each) > 1}:
                table.optimize.compact(partition_filters=[(DAY, "=", day.isoformat())])
            table.vacuum(dry_run=False)

        self._write(clean, f"can't be compacted, or those before {first} removed")

    def _with(self, part: pa.Table, own: dict[str, Any]) -> pa.Table:
        made = part
        for name, value in own.items():
            kind = _OWN.field(name).type
            made = made.append_column(name, pa.repeat(pa.scalar(value, kind), len(part)))
        return made.cast(self._schema)

    def _opened(self) -> DeltaTable:
        """Return the table; create it if it does not exist."""
        if open_target(self._folder) is None:
            settings = {_FEED: self._owner, _KEY: ",".join(self._key), **_SETTINGS}
            DeltaTable.create(
                self._folder.url,
                self._schema,
                partition_by=[DAY],
                configuration=settings,
                raise_if_key_not_exists=False,
                storage_options=self._folder.documents.delta_options,
            )
        return delta_table(self._folder)

    def _write(self, write: Callable[[], None], failed: str) -> None:
        """Write to the table; what fails is raised as what is wrong with the table or its store."""
        try:
            write()
        except (DeltaError, OSError, ValueError) as error:
            what = f"The deliveries of feed `{self._owner}` in {self._folder} {failed}"
            hint = (
                "Correct that; if it is about space or rights, free space or make the folder "
                "writable. It is tried again with the next delivery."
            )
            raise unreadable_table(what, self._folder, error, hint) from error


def is_own(column: str) -> bool:
    """Return whether a column of the table is one of its own, and not one of the target."""
    return column in _OWN.names


def day_of(at_ms: int) -> date:
    """Return the day in UTC of a time in ms since 1970."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date()


def _time(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC)
