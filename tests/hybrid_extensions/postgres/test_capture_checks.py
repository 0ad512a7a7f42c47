"""What can't be captured, asked of a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.postgres.capture_checks import require_capturable
from hybrid_extensions.postgres.table_checks import check_columns
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.config.source.snapshot import SnapshotOptions
from sources.config.table.sink import Sink
from sources.errors import InputError

pytestmark = pytest.mark.slow
MERGE = Sink.model_validate({"path": "out", "mode": "merge", "key": ["id"]})
APPEND = Sink.model_validate({"path": "out", "mode": "append", "key": ["id"]})
Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with (
        LocalPostgres() as server,
        psycopg.connect(server.dsn, password=server.password, autocommit=True) as opened,
    ):
        opened.execute("CREATE TABLE plain (id int PRIMARY KEY, note text)")
        opened.execute("CREATE PUBLICATION p FOR TABLE plain")
        yield opened


def told(connection: Connection, table: str, *setup: str, sink: Sink = MERGE) -> InputError:
    """The refusal of a table that is made for it."""
    for statement in setup:
        connection.execute(statement)
    with pytest.raises(InputError) as caught:
        require_capturable(connection, f"public.{table}", ["id", "note"], sink, truncates=True)
    assert caught.value.fields["table"] == f"public.{table}"
    assert caught.value.hint
    return caught.value


def warned(connection: Connection, table: str, sink: Sink = MERGE) -> list[str]:
    columns = ["id", "note"]
    return require_capturable(connection, f"public.{table}", columns, sink, truncates=True)


def test_a_plain_table_is_captured(connection: Connection) -> None:
    assert warned(connection, "plain") == []
    # That it does not exist is for others to say.
    assert warned(connection, "nothing") == []


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("CREATE VIEW x AS SELECT * FROM plain", "is a view, whose changes are in no log"),
        ("CREATE MATERIALIZED VIEW x AS SELECT * FROM plain", "is a materialized view"),
        ("CREATE UNLOGGED TABLE x (id int PRIMARY KEY)", "is unlogged"),
        ("CREATE TABLE x (id int, note text)", "has no primary key, so its updates and deletes"),
        (
            "CREATE TABLE x (id int PRIMARY KEY DEFERRABLE, note text)",
            "has a primary key that is DEFERRABLE",
        ),
        (
            "CREATE TABLE x (id int PRIMARY KEY, note int GENERATED ALWAYS AS (id * 2) STORED)",
            r"generated columns \(note\)",
        ),
        (
            "CREATE TABLE x (id int PRIMARY KEY, day date) PARTITION BY RANGE (id)",
            "is partitioned: its changes arrive as those of its partitions",
        ),
        ("CREATE TABLE x (id int PRIMARY KEY); CREATE TABLE y () INHERITS (x)", "inherit from"),
    ],
)
def test_what_is_not_in_the_log_is_refused(
    connection: Connection, statement: str, text: str
) -> None:
    with connection.transaction(force_rollback=True):
        refused = told(connection, "x", *statement.split("; "))
        assert refused.message.startswith(("`public.x`", "Table `public.x`", "Other tables"))
        assert re.search(text, refused.message)


def test_a_partitioned_table_is_captured_as_a_whole(connection: Connection) -> None:
    with connection.transaction(force_rollback=True):
        for statement in (
            "CREATE TABLE x (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)",
            "CREATE TABLE x1 PARTITION OF x FOR VALUES FROM (0) TO (100)",
            "CREATE PUBLICATION whole FOR TABLE x WITH (publish_via_partition_root = true)",
        ):
            connection.execute(statement)
        assert warned(connection, "x") == []
        assert "is a partition of `x`" in told(connection, "x1").message


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        (
            ["CREATE UNLOGGED TABLE x1 PARTITION OF x FOR VALUES FROM (0) TO (100)"],
            "Partition `x1` of table `public.x` is unlogged",
        ),
        (
            [
                "CREATE TABLE x1 PARTITION OF x FOR VALUES FROM (0) TO (100)",
                "ALTER TABLE x1 ALTER note SET NOT NULL, ADD UNIQUE (id, note)",
                "ALTER TABLE x1 REPLICA IDENTITY USING INDEX x1_id_note_key",
            ],
            "Partition `x1` of table `public.x` has a REPLICA IDENTITY of its own",
        ),
        (
            [
                "ALTER TABLE x DROP CONSTRAINT x_pkey",
                "ALTER TABLE x REPLICA IDENTITY FULL",
                "CREATE FOREIGN DATA WRAPPER nobody",
                "CREATE SERVER nowhere FOREIGN DATA WRAPPER nobody",
                "CREATE FOREIGN TABLE x1 PARTITION OF x FOR VALUES FROM (0) TO (100) "
                "SERVER nowhere",
            ],
            "Partition `x1` of table `public.x` is a foreign table",
        ),
    ],
)
def test_a_partition_whose_changes_are_not_all_in_the_log_is_refused(
    connection: Connection, statements: list[str], text: str
) -> None:
    with connection.transaction(force_rollback=True):
        made = [
            "CREATE TABLE x (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)",
            "CREATE PUBLICATION whole FOR TABLE x WITH (publish_via_partition_root = true)",
        ]
        refused = told(connection, "x", *made, *statements, sink=APPEND)
        assert text in refused.message


def test_deletes_have_to_carry_the_key_by_which_they_are_merged(connection: Connection) -> None:
    by_note = MERGE.model_copy(update={"key": ["note"]})
    with connection.transaction(force_rollback=True):
        made = "CREATE TABLE x (id int PRIMARY KEY, note text NOT NULL UNIQUE)"
        refused = told(connection, "x", made, sink=by_note)
        assert "carry only `id`, and `sink.key` has `note`" in refused.message
        assert "`sink: {key: [id]}`" in refused.hint
        # A column of the transform is none of the table's.
        assert warned(connection, "x", MERGE.model_copy(update={"key": ["number"]})) == []
        assert warned(connection, "x", APPEND.model_copy(update={"key": ["note"]})) == []
        connection.execute("ALTER TABLE x REPLICA IDENTITY USING INDEX x_note_key")
        assert warned(connection, "x", by_note) == []
        assert "carry only `note`, and `sink.key` has `id`" in told(connection, "x").message
        connection.execute("ALTER TABLE x REPLICA IDENTITY FULL")
        assert warned(connection, "x", by_note) == warned(connection, "x") == []


@pytest.mark.parametrize(
    "columns",
    [
        # A unique index may have many nulls.
        "id int PRIMARY KEY, note text UNIQUE",
        "id int PRIMARY KEY, note text NOT NULL",
        "id int, note text, PRIMARY KEY (id, note)",
    ],
)
def test_a_key_that_does_not_identify_rows_is_refused(connection: Connection, columns: str) -> None:
    with connection.transaction(force_rollback=True):
        by_note = MERGE.model_copy(update={"key": ["note"]})
        made = (f"CREATE TABLE x ({columns})", "ALTER TABLE x REPLICA IDENTITY FULL")
        refused = told(connection, "x", *made, sink=by_note)
        assert "(note) does not identify a row" in refused.message
        assert warned(connection, "x", MERGE.model_copy(update={"key": ["id", "note"]})) == []
        connection.execute("ALTER TABLE x ALTER note SET NOT NULL, ADD UNIQUE (note)")
        assert warned(connection, "x", by_note) == []


def test_a_key_that_was_renamed_since_the_snapshot_is_in_deletes(connection: Connection) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute("CREATE TABLE x (id int PRIMARY KEY, note text)")
        connection.execute("ALTER TABLE x RENAME id TO number")
        assert warned(connection, "x") == []


def test_a_column_that_a_key_only_includes_is_in_no_delete(connection: Connection) -> None:
    with connection.transaction(force_rollback=True):
        made = "CREATE TABLE x (id int, note text, PRIMARY KEY (id) INCLUDE (note))"
        by_both = MERGE.model_copy(update={"key": ["id", "note"]})
        assert "carry only `id`" in told(connection, "x", made, sink=by_both).message
        assert warned(connection, "x") == []


def test_a_table_without_a_key_may_be_appended(connection: Connection) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute("CREATE TABLE x (id int NOT NULL, note text)")
        connection.execute("ALTER TABLE x REPLICA IDENTITY FULL")
        assert warned(connection, "x", APPEND) == []
        assert "equal rows would be merged into one" in told(connection, "x").message
        connection.execute("CREATE UNIQUE INDEX ON x (id)")
        assert warned(connection, "x") == []


@pytest.mark.parametrize(
    ("publication", "text"),
    [
        (
            "CREATE PUBLICATION q FOR TABLE x WITH (publish = 'insert, update, truncate')",
            "does not publish all inserts, updates and deletes",
        ),
        (
            "CREATE PUBLICATION q FOR TABLE x WITH (publish = 'insert, update, delete')",
            "does not publish TRUNCATEs",
        ),
    ],
)
def test_a_publication_that_leaves_out_changes_is_refused(
    connection: Connection, publication: str, text: str
) -> None:
    with connection.transaction(force_rollback=True):
        refused = told(connection, "x", "CREATE TABLE x (id int PRIMARY KEY)", publication)
        assert text in refused.message
        assert "ALTER PUBLICATION q SET" in refused.hint


def test_a_row_filter_is_removed_as_told_and_no_other_table(connection: Connection) -> None:
    filtered = "CREATE PUBLICATION q FOR TABLE plain, x WHERE (id > 5)"
    with connection.transaction(force_rollback=True):
        refused = told(connection, "x", "CREATE TABLE x (id int PRIMARY KEY)", filtered)
        assert "has a row filter for table `public.x`" in refused.message
        [statements] = re.findall("Run `BEGIN; (.*); COMMIT`", refused.hint)
        connection.execute(statements)
        assert warned(connection, "x") == []
        left = "SELECT count(*) FROM pg_publication_tables WHERE pubname = 'q'"
        assert connection.execute(left).fetchone() == (2,)


def test_of_several_publications_the_one_without_truncates_is_named(
    connection: Connection,
) -> None:
    made = ["CREATE TABLE x (id int PRIMARY KEY)"]
    made += ["CREATE PUBLICATION a FOR TABLE x WITH (publish = 'insert, truncate')"]
    made += ["CREATE PUBLICATION b FOR TABLE x WITH (publish = 'insert, update, delete')"]
    with connection.transaction(force_rollback=True):
        refused = told(connection, "x", *made)
    assert "Publication `b` does not publish TRUNCATEs" in refused.message


def test_of_a_large_object_only_the_number_is_captured(connection: Connection) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute("CREATE TABLE x (id int PRIMARY KEY, note oid)")
        (warning,) = warned(connection, "x")
        assert "its content is in no log of changes" in warning


def test_arrays_that_debezium_can_not_mark_as_unchanged_are_warned_about(
    connection: Connection,
) -> None:
    kinds = {"id": "int", "words": "text[]", "prices": "numeric[]", "seen": "timestamptz[]"}
    table = CapturedTable(
        source="snapshot",
        name="public.x",
        options=SnapshotOptions(dsn="postgresql://h/d", slot="s"),
        columns=dict.fromkeys(kinds, "string"),
        ignored=[],
        sink=MERGE,
    )
    declared = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    with connection.transaction(force_rollback=True):
        connection.execute(f"CREATE TABLE x ({declared}, PRIMARY KEY (id))")
        _, warnings = check_columns(connection, table)
        (text,) = [each for each in warnings if "has no placeholder" in each]
        assert "a long value of prices, seen as it was carries null" in text
        connection.execute("ALTER TABLE x REPLICA IDENTITY FULL")
        assert check_columns(connection, table)[1] == []
