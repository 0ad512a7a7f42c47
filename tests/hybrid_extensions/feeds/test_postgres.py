"""A table of a real PostgreSQL as a second sink."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import Field, PrimitiveType
from psycopg.rows import dict_row

from hybrid_extensions.feeds.feed_health import feed_statuses
from hybrid_extensions.feeds.position import Held
from hybrid_extensions.feeds.sinks.postgres import PostgresSink
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.errors import InputError, StateError, UnavailableError
from tests.hybrid_extensions.feeds.feed_case import SCHEMA, FeedCase, row

TABLE = "delays"


class Serving(FeedCase):
    """A pipeline that feeds a table of PostgreSQL."""

    def __init__(
        self, folder: Path, dsn: str, partition_by: Sequence[str] = ("part",), **declared: Any
    ) -> None:
        self.dsn = dsn
        feed = {
            "name": "serving",
            "type": "postgres",
            "dsn": dsn,
            "password_variable": "SERVING_PASSWORD",
            "table": TABLE,
        }
        self.feed = {**feed, **declared}
        super().__init__(folder, self.feed, partition_by=partition_by)

    def sql(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        password = os.environ["SERVING_PASSWORD"]
        with psycopg.connect(
            self.dsn, password=password, autocommit=True, row_factory=dict_row
        ) as connection:
            done = connection.execute(statement, values)
            return done.fetchall() if done.description else []

    def rows(self) -> list[dict[str, Any]]:
        names = ", ".join(SCHEMA.names)
        return self.sql(f"SELECT {names} FROM {TABLE}")


@pytest.fixture
def case(tmp_path: Path, database: str) -> Serving:
    made = Serving(tmp_path, database)
    made.write(row(n) for n in range(100))
    return made


class TestDelivery:
    def test_a_load_then_changes_and_deletes_make_the_table_equal(self, case: Serving) -> None:
        first = case.deliver()
        assert (first.kind, first.number, first.rows) == ("load", 1, 100)
        assert case.difference(case.rows()) == []
        case.write(row(n, 1) for n in range(50, 120))
        case.delete("id < 10")
        case.write([row(3, 2)])
        second = case.deliver()
        # 70 written, 9 deleted, and one that was deleted and came back.
        assert (second.kind, second.number, second.rows) == ("changes", 4, 80)
        assert case.difference(case.rows()) == []
        assert case.deliver().kind == "none"

    def test_the_rows_of_a_key_move_between_partitions(self, case: Serving) -> None:
        case.deliver()
        case.write([row(1, 1, part="b")])
        case.delete("part = 'a' AND id = 1")
        assert case.deliver().rows == 2
        assert case.difference(case.rows()) == []

    def test_texts_arrive_as_they_are(self, tmp_path: Path, database: str) -> None:
        # A partition of Delta can't be an empty text.
        case = Serving(tmp_path, database, ())
        texts = [
            "",
            " ",
            "\\.",
            "\\N",
            "NULL",
            'a,"b"',
            "two\nlines",
            "\r\n",
            "ä€😀",
            "'; --",
            "\t",
        ]
        case.write(row(n, part=text) for n, text in enumerate(texts, 1000))
        case.deliver()
        case.write(row(n, 1, part=text) for n, text in enumerate(texts, 1000))
        case.deliver()
        assert case.difference(case.rows()) == []
        assert case.compare(1000).agrees

    def test_a_character_that_postgresql_does_not_know_is_refused(self, case: Serving) -> None:
        case.write([row(1000, part="a\0b")])
        with pytest.raises(InputError, match="refuses feed `serving`"):
            case.deliver()
        assert case.rows() == []

    def test_types_are_those_of_the_delta_table(self, case: Serving) -> None:
        case.deliver()
        found = case.sql(
            "SELECT column_name AS name, data_type AS type FROM information_schema.columns "
            "WHERE table_name = %s",
            TABLE,
        )
        assert {each["name"]: each["type"] for each in found} == {
            "id": "bigint",
            "part": "text",
            "n": "integer",
            "x": "double precision",
            "price": "numeric",
            "day": "date",
            "at": "timestamp with time zone",
            "ok": "boolean",
            "data": "bytea",
            "tags": "jsonb",
        }

    def test_rows_that_did_not_change_are_not_written(self, case: Serving) -> None:
        case.deliver()
        query = f"SELECT id, xmin::text FROM {TABLE}"
        before = {each["id"]: each["xmin"] for each in case.sql(query)}
        case.write([row(1, 1)])
        case.table.optimize.compact()
        case.deliver()
        case.deliver(reload=True)
        after = {each["id"]: each["xmin"] for each in case.sql(query)}
        assert [number for number in before if before[number] != after[number]] == [1]

    def test_a_compaction_delivers_nothing(self, case: Serving) -> None:
        case.write(row(n) for n in range(100, 110))
        case.deliver()
        case.table.optimize.compact()
        done = case.deliver()
        assert (done.kind, done.rows) == ("changes", 0)

    def test_only_declared_columns_are_delivered(self, tmp_path: Path, database: str) -> None:
        case = Serving(tmp_path, database, columns=["n"])
        case.write([row(1)])
        case.deliver()
        assert case.sql(f"SELECT * FROM {TABLE}") == [{"id": 1, "part": "a", "n": 0}]

    def test_a_table_of_ones_own_keeps_its_other_columns_and_types(
        self, tmp_path: Path, database: str
    ) -> None:
        case = Serving(tmp_path, database, columns=["n", "tags", "price"])
        case.sql(
            f"CREATE TABLE {TABLE} (id int, part varchar(5), n text, tags json, price real, "
            "mine text DEFAULT 'x', UNIQUE (part, id))"
        )
        case.write([row(1)])
        case.deliver()
        case.write([row(1, 5)])
        case.deliver()
        found = {"id": 1, "part": "a", "n": "5", "price": 1.05, "mine": "x"}
        names = ", ".join(found)
        assert case.sql(f"SELECT {names} FROM {TABLE}") == [found]


class TestLoads:
    @pytest.mark.parametrize(
        ("what", "why"),
        [
            ("vacuum", "can't be read"),
            ("promotion", "another generation serves"),
            ("made again", "the table was created again"),
            ("set back", "the table was set back from version 3 to 2"),
            ("replaced", "version 2 of the table has another commit than it had"),
            ("log removed", "the log of the table no longer has version 1"),
            ("truncated", "nothing is delivered yet"),
            ("dropped", "nothing is delivered yet"),
            ("columns", "other columns, or another key, are delivered"),
        ],
    )
    def test_what_can_t_be_followed_is_loaded_and_leaves_no_stale_key(
        self, case: Serving, what: str, why: str
    ) -> None:
        case.deliver()
        if what == "vacuum":
            case.write(row(n, 1) for n in range(50, 120))
            case.delete("id < 5")
            case.table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        elif what == "promotion":
            case.write([row(1, 9)])
            case.delete("id > 30")
            case.own("second")
        elif what == "made again":
            shutil.rmtree(case.target)
            case.write(row(n, 1) for n in range(5))
        elif what == "set back":
            case.write([row(1, 1)])
            case.write([row(200, 1)])
            case.deliver()
            (case.target / "_delta_log" / f"{3:020d}.json").unlink()
        elif what == "replaced":
            case.write([row(200, 1)])
            case.deliver()
            (case.target / "_delta_log" / f"{2:020d}.json").unlink()
            case.write([row(300, 1)])
            case.write([row(301, 1)])
        elif what == "log removed":
            case.write([row(200, 1)])
            case.table.create_checkpoint()
            (case.target / "_delta_log" / f"{1:020d}.json").unlink()
        elif what == "truncated":
            case.sql(f"TRUNCATE {TABLE}")
        elif what == "dropped":
            case.sql(f"DROP TABLE {TABLE}")
        else:
            case.sql(f"ALTER TABLE {TABLE} ADD COLUMN more int")
            case.table.alter.add_columns([Field("more", PrimitiveType("integer"))])
        done = case.deliver()
        assert done.kind == "load"
        assert why in done.why
        rows = case.rows()
        if what == "columns":
            assert len(rows) == 100
        else:
            assert case.difference(rows) == []

    @pytest.mark.parametrize("what", [f"TRUNCATE {TABLE}", "TRUNCATE rest", f"DROP TABLE {TABLE}"])
    def test_a_partitioned_table_of_ones_own_that_was_emptied_is_loaded(
        self, tmp_path: Path, database: str, what: str
    ) -> None:
        case = Serving(tmp_path, database)
        case.write(row(n) for n in range(100))
        case.deliver()
        case.sql(f"ALTER TABLE {TABLE} RENAME TO rest")
        case.sql(f"CREATE TABLE {TABLE} (LIKE rest INCLUDING INDEXES) PARTITION BY LIST (part)")
        case.sql(f"ALTER TABLE {TABLE} ATTACH PARTITION rest DEFAULT")
        case.deliver()
        assert case.deliver().kind == "none"
        case.sql(what)
        assert case.deliver().kind == "load"
        assert case.difference(case.rows()) == []

    def test_a_restore_is_followed(self, case: Serving) -> None:
        case.deliver()
        case.write(row(n, 1) for n in range(50, 150))
        case.deliver()
        case.table.restore(1)
        done = case.deliver()
        assert (done.kind, done.rows) == ("changes", 100)
        assert case.difference(case.rows()) == []


class TestRefusals:
    def test_a_follower_that_was_overtaken_changes_nothing(
        self, case: Serving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case.deliver()
        with case.follower() as slow:
            slow.deliver()
            case.write([row(1, 1)])
            deliver = PostgresSink.apply

            def late(*given: Any) -> None:
                # Between its look at the sink and its delivery.
                monkeypatch.setattr(PostgresSink, "apply", deliver)
                case.write([row(1, 2)])
                case.deliver()
                deliver(*given)

            monkeypatch.setattr(PostgresSink, "apply", late)
            with pytest.raises(StateError, match="Another follower has fed table") as caught:
                slow.deliver()
        assert caught.value.transient
        assert case.difference(case.rows()) == []

    def test_rows_of_others_are_not_deleted(self, case: Serving) -> None:
        case.sql(f"CREATE TABLE {TABLE} (id int, part text, PRIMARY KEY (id, part))")
        case.sql(f"INSERT INTO {TABLE} VALUES (1, 'theirs')")
        with pytest.raises(InputError, match="rows that no feed has written"):
            case.deliver()

    def test_a_table_has_one_feed(self, case: Serving) -> None:
        case.deliver()
        case.declare({**case.feed, "name": "other"})
        with pytest.raises(InputError, match=r"is fed by `delays.serving`, not by `delays.other`"):
            case.deliver()

    def test_a_table_has_one_feed_by_whatever_name(self, case: Serving) -> None:
        case.delete("true")
        case.deliver()
        # Without a row nothing else says that it is fed.
        case.declare({**case.feed, "name": "other", "table": f"public.{TABLE}"})
        with pytest.raises(InputError, match=r"fed by `delays.serving`, not by `delays.other`"):
            case.deliver()

    def test_a_missing_column_is_named_with_the_statement_that_adds_it(self, case: Serving) -> None:
        case.sql(f"CREATE TABLE {TABLE} (id int, part text, PRIMARY KEY (id, part))")
        with pytest.raises(InputError, match="has no columns `n`, ") as caught:
            case.deliver()
        added = caught.value.hint.partition("`")[2].partition("`")[0]
        case.sql(added)
        case.deliver()
        assert case.difference(case.rows()) == []

    def test_a_key_without_an_index_is_refused(self, case: Serving) -> None:
        case.sql(f"CREATE TABLE {TABLE} (id int PRIMARY KEY, part text)")
        case.declare({**case.feed, "columns": ["part"]})
        with pytest.raises(InputError, match="no unique index on the columns"):
            case.deliver()

    def test_a_value_that_does_not_fit_changes_nothing(self, case: Serving) -> None:
        case.deliver()
        case.sql(f"ALTER TABLE {TABLE} ADD CHECK (n < 3)")
        case.write([row(1, 1), row(2, 5)])
        with pytest.raises(InputError, match="refuses feed `serving`") as caught:
            case.deliver()
        # The details have values of the row.
        assert "Failing row" not in str(caught.value)
        assert {each["n"] for each in case.rows()} == {0}

    def test_two_rows_of_a_key_are_refused(self, case: Serving) -> None:
        case.deliver()
        twice = pa.Table.from_pylist([row(500), row(500, 1)], SCHEMA)
        write_deltalake(str(case.target), twice, mode="append")
        with pytest.raises(InputError, match="2 rows of the key id=500, part=a"):
            case.deliver()

    def test_a_wrong_password_is_not_shown(
        self, case: Serving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SERVING_PASSWORD", "guessed-secret")
        with pytest.raises(InputError, match="refuses feed `serving`") as caught:
            case.deliver()
        assert "SERVING_PASSWORD" in caught.value.hint
        assert "guessed-secret" not in str(caught.value)

    def test_a_server_that_is_down_is_waited_for(self, case: Serving) -> None:
        down = "host=127.0.0.1 port=1 user=nobody dbname=none"
        case.declare({**case.feed, "dsn": down})
        with pytest.raises(UnavailableError, match="does not answer feed `serving`"):
            case.deliver()


def test_a_crash_of_the_server_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalPostgres(tmp_path / "server") as server:
        monkeypatch.setenv("SERVING_PASSWORD", server.password)
        case = Serving(tmp_path, server.dsn)
        case.write([row(1), row(2)])
        with case.follower() as follower:
            follower.deliver()
            server.kill()
            case.write([row(1, 1)])
            with pytest.raises(UnavailableError):
                follower.deliver()
            server.start()
            monkeypatch.setenv("SERVING_PASSWORD", server.password)
            assert follower.deliver().kind == "changes"
        assert case.difference(case.rows()) == []


def test_a_table_that_is_not_there_yet_is_waited_for(tmp_path: Path, database: str) -> None:
    case = Serving(tmp_path, database)
    assert case.deliver() == ("none", None, 0, "")
    assert not DeltaTable.is_deltatable(str(case.target))


class TestComparison:
    def test_a_sink_that_has_the_table_agrees(self, case: Serving) -> None:
        case.deliver()
        case.write([row(1, 1)])
        found = case.compare(1000)
        # At the version that it has.
        assert (found.number, found.compared, found.different) == (1, 100, 0)
        assert found.agrees
        assert case.compare(10).compared == 10

    @pytest.mark.parametrize(
        ("statement", "different", "rows"),
        [
            (f"UPDATE {TABLE} SET price = price + 1 WHERE id = 1", 1, 100),
            (f"UPDATE {TABLE} SET tags = NULL WHERE id IN (1, 2)", 2, 100),
            (f"DELETE FROM {TABLE} WHERE id < 3", 3, 97),
            (f"INSERT INTO {TABLE} (id, part) VALUES (1000, 'stale')", 0, 101),
        ],
    )
    def test_what_others_changed_is_found_and_repaired(
        self, case: Serving, statement: str, different: int, rows: int
    ) -> None:
        case.deliver()
        case.sql(statement)
        found = case.compare(1000)
        assert (found.different, found.sink_rows, found.agrees) == (different, rows, False)
        assert found.share == 1 - different / 100
        assert len(found.examples) == different
        (status,) = feed_statuses(case.loaded)
        assert not status.is_healthy
        case.deliver(reload=True)
        assert case.compare(1000).agrees
        (status,) = feed_statuses(case.loaded)
        assert status.is_healthy

    def test_a_sink_that_has_nothing_can_t_be_compared(self, case: Serving) -> None:
        with pytest.raises(InputError, match="nothing is delivered yet"):
            case.compare(10)

    def test_a_delivery_during_a_comparison_is_not_taken_for_none(
        self, case: Serving, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case.deliver()
        real = PostgresSink.held

        def held(sink: PostgresSink, columns: pa.Schema) -> Held:
            found = real(sink, columns)
            sink._seen = "earlier"
            return found

        monkeypatch.setattr(PostgresSink, "held", held)
        with pytest.raises(StateError, match="was delivered while it was compared"):
            case.compare(10)
