"""What each kind of database must do for capture: the functions that its extension has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from hybrid_extensions.cdc.databases.altered_table import Names, TableWatch
from hybrid_extensions.cdc.databases.captured_table import (
    CapturedTable,
    DatabaseTable,
    Exported,
    GoneColumns,
    NewColumns,
    OpenTable,
)
from hybrid_extensions.cdc.databases.log_mark import Mark
from hybrid_extensions.cdc.databases.slot import Slot
from sources.common.database_snapshot import DatabaseSnapshot
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.decoding.changes.added_columns import AddedColumn


@dataclass(frozen=True)
class Access:
    """Operations on databases of one kind, as functions.

    ``options`` and ``dsn`` say how the database is reached. Unless it is said otherwise, a function
    raises InputError if the database refuses the login or a permission, and UnavailableError if it
    does not answer.

    Attributes:
        open_table: Connects to the database of a table, and checks that its changes can be
            followed: a context manager with the table, whose connections end with it. Raises
            InputError also if the table does not fit, and QueryError if a query failed or a
            connection was lost, in the body, too.
        export: Takes a snapshot of a database that its tables can share, which is reached by one of
            them: a context manager with the snapshot, which lasts as long. Raises what
            ``open_table`` does.
        find_tables: Returns the tables of a database whose names, ``schema.table`` or
            ``database.table``, are wanted, with the columns and keys that a pipeline declares.
        mark_log: Returns a position in a database's log that divides all transactions. Each change
            that is in a topic by then is from before it. Raises InputError also if the database
            can't give such a position.
        settle_log: Returns the end of the log, as a number, once all transactions that were in
            flight at the call have ended, for which it waits a number of seconds: each later
            snapshot has all changes from before it. Where snapshots are positions of the log, it
            waits for nothing, and returns 0. Raises StateError also if they have not ended in time.
        ask_slot: Returns the place of the connector in the log, or why it is not known. Raises no
            error.
        find_added_columns: Returns the type of each column that a table got later, and the default
            that older rows hold. Raises UnknownDefault if what they hold can't be known; the other
            errors also for the broker.
        find_gone_columns: Returns the new name that each column had which a change of a captured
            table lacks; None for one that was dropped. Raises UnknownDefault if that can't be
            known; the other errors also for the broker.
        find_types: Returns the Spark SQL types that a table's columns have now, by name.
        look_at_table: Returns what a look at a captured table sees, or why it sees nothing: of a
            table, the topic of its changes, the names of its captured columns, what the last look
            saw, with the time of this one, and what the table's snapshot contains. Raises
            HybridError if the database or the broker does not answer, or refuses.
        server_of: Returns ``host:port`` of a database, for messages; without user and password.
        ask_silence: Returns why a database does not answer, or refuses, as text; None if it
            answers. Raises no error. It is asked where neither a slot nor a connector is declared,
            by which that would be found out; by default nothing is asked.
    """

    open_table: Callable[[CapturedTable], AbstractContextManager[OpenTable]]
    export: Callable[[CapturedTable], AbstractContextManager[Exported]]
    find_tables: Callable[[str, Callable[[str], bool]], list[DatabaseTable]]
    mark_log: Callable[[SnapshotOptions], Mark]
    settle_log: Callable[[SnapshotOptions, float], int]
    ask_slot: Callable[[SnapshotOptions], Slot | str]
    find_added_columns: Callable[[NewColumns], dict[str, AddedColumn]]
    find_gone_columns: Callable[[GoneColumns], dict[str, str | None]]
    find_types: Callable[[SnapshotOptions, str], dict[str, str]]
    look_at_table: Callable[
        [CapturedTable, KafkaSource, Names, TableWatch, DatabaseSnapshot], TableWatch
    ]
    server_of: Callable[[str], str]
    ask_silence: Callable[[SnapshotOptions], str | None] = lambda _options: None
