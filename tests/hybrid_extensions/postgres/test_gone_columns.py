"""What became of columns that a change lacks, asked of a real server."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from hybrid_extensions.cdc.databases.captured_table import GoneColumns, NewColumns, UnknownDefault
from hybrid_extensions.postgres.gone_columns import find_gone_columns
from hybrid_extensions.postgres.watch.catalog_definition import read_definition
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.config.source.snapshot import SnapshotOptions
from tests.services.captured_database import own_database
from tests.sources.decoding.value_case import changes_source

pytestmark = pytest.mark.slow


class Table:
    """A table with the columns `id`, `a` and `b`, which is made for each test."""

    name = "public.t"

    def __init__(self, dsn: str) -> None:
        self.options = SnapshotOptions(dsn=dsn, slot="s")
        self.source = changes_source({"id": "int"}, table=self.name)
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.execute(
            "DROP TABLE IF EXISTS t CASCADE", "CREATE TABLE t (id int PRIMARY KEY, a int, b int)"
        )
        self.at_snapshot = read_definition(self.connection, self.name)

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)

    def find(
        self, gone: list[str], new: list[str], present: list[str], **names: str
    ) -> dict[str, str | None]:
        """What became of columns of which a change lacks some, and has others."""
        before = ["id", "a", "b"]
        asked = NewColumns(
            self.options, self.source, "shop", new, before, [], None, self.at_snapshot
        )

        def known(columns: list[str]) -> dict[str, str]:
            return {name: names.get(name, name) for name in columns}

        return find_gone_columns(GoneColumns(asked, known(gone), known(present), None))


@pytest.fixture(scope="module")
def dsn(postgres: LocalPostgres) -> Iterator[str]:
    with own_database(postgres) as made:
        yield made


@pytest.fixture
def table(dsn: str, postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    made = Table(dsn)
    yield made
    made.connection.close()


def test_dropped_and_renamed_columns_are_told_apart(table: Table) -> None:
    table.execute("ALTER TABLE t DROP a", "ALTER TABLE t RENAME b TO c", "ALTER TABLE t ADD d int")
    assert table.find(["a"], [], ["id", "b"], b="c") == {"a": None}
    assert table.find(["a", "b"], ["c"], ["id"]) == {"a": None, "b": "c"}
    assert table.find(["a", "b"], ["c", "d"], ["id"]) == {"a": None, "b": "c"}


def test_a_name_of_before_the_present_one_is_found_if_no_other_column_can_have_it(
    table: Table,
) -> None:
    table.execute("ALTER TABLE t RENAME a TO c", "ALTER TABLE t RENAME c TO e")
    assert table.find(["a"], ["c"], ["id", "b"]) == {"a": "c"}
    assert table.find(["a"], ["e"], ["id", "b"], a="c") == {"a": "e"}
    table.execute("ALTER TABLE t ADD d int")
    assert table.find(["a"], ["c", "d"], ["id", "b"]) == {"a": "c"}
    with pytest.raises(UnknownDefault, match="which of its columns was `a` at this change"):
        table.find(["a"], ["c", "f"], ["id", "b"])


def test_what_was_dropped_later_may_be_in_a_change(table: Table) -> None:
    table.execute("ALTER TABLE t DROP a", "ALTER TABLE t DROP b")
    assert table.find(["a"], [], ["id", "b"]) == {"a": None}
    assert table.find(["b"], [], ["id"]) == {"b": None}


@pytest.mark.parametrize(
    ("statements", "new", "told"),
    [
        # `b` of such a change has the values of `a`.
        (["DROP b", "RENAME a TO b"], [], "which of its columns was `a`"),
        (["DROP b", "RENAME a TO b", "DROP b"], [], "`b`, which the change has, was dropped"),
        (["RENAME b TO x", "RENAME a TO b"], ["x"], "which of its columns was `a`"),
        (["RENAME a TO c", "RENAME c TO a"], ["c"], "renamed and renamed back"),
        (["RENAME a TO c", "RENAME b TO d"], ["c"], "`b`, which the change has, was dropped or"),
    ],
)
def test_what_a_change_can_not_tell_is_refused(
    table: Table, statements: list[str], new: list[str], told: str
) -> None:
    table.execute(*(f"ALTER TABLE t {each}" for each in statements))
    with pytest.raises(UnknownDefault, match=told):
        table.find(["a"], new, ["id", "b"])


def test_a_column_of_which_the_snapshot_knows_nothing_is_refused(table: Table) -> None:
    table.execute("ALTER TABLE t ADD d int", "ALTER TABLE t DROP d")
    with pytest.raises(UnknownDefault, match="the number of `d` at the snapshot is not known"):
        table.find(["d"], [], ["id", "a", "b"])
    table.at_snapshot = None
    with pytest.raises(UnknownDefault, match="numbers of the columns at the snapshot"):
        table.find(["a"], [], ["id", "b"])
