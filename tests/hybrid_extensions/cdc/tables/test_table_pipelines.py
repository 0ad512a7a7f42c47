"""Tables of a real PostgreSQL: found, made into pipelines, and copied at one point in time."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import psycopg
import pyarrow.parquet as pq
import pytest
import yaml

from hybrid_extensions.cdc import snapshots
from hybrid_extensions.cdc.tables import table_pipelines
from hybrid_extensions.cdc.tables.dagster import template_definitions
from hybrid_extensions.cdc.tables.names import topic_part
from hybrid_extensions.cdc.tables.template import Template
from hybrid_extensions.servers.broker import create_topic
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.errors import HybridError
from tests.command_line import invoke
from tests.extensions import skip_without

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
MONEY = 1000


class Shop:
    """A database with a slot and a publication, and the file that captures its tables."""

    def __init__(self, folder: Path, postgres: LocalPostgres, servers: str) -> None:
        self.name = f"shop_{uuid.uuid4().hex[:8]}"
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self.name}")
        self.dsn = postgres.dsn.replace("dbname=postgres", f"dbname={self.name}")
        self.servers = servers
        self.path = folder / "shop.yaml"
        self.execute(
            "CREATE TYPE colour AS ENUM ('red')",
            "CREATE TABLE one (id bigint PRIMARY KEY, n int, c colour, at timestamptz, "
            "tags text[], price numeric(12,2), twice int GENERATED ALWAYS AS (n * 2) STORED)",
            "CREATE TABLE two (a int, b varchar(9), n int, PRIMARY KEY (b, a))",
            "CREATE TABLE odd (id int, took interval)",
            "CREATE TABLE audit_log (id int PRIMARY KEY)",
            f"INSERT INTO one (id, n) VALUES (1, {MONEY})",
            "INSERT INTO two VALUES (1, 'x', 0)",
            f"CREATE PUBLICATION {self.name} FOR ALL TABLES",
            f"SELECT pg_create_logical_replication_slot('{self.name}', 'pgoutput')",
        )
        document = {
            "name": "shop",
            "database": {"dsn": self.dsn, "slot": self.name},
            "tables": {"include": ["public.*"], "exclude": ["public.audit_*"]},
            "topic": f"{self.name}.{{schema}}.{{table}}",
            "changes": {"bootstrap_servers": servers},
            "sink": {"path": "lake/{table}"},
            "state": "state",
        }
        self.path.write_text(yaml.safe_dump(document))
        for table in ("one", "two", "three"):
            create_topic(servers, f"{self.name}.public.{table}", 1, {"retention.ms": "-1"})

    def execute(self, *statements: str) -> None:
        """Each in a transaction of its own."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def run(self, *words: str) -> tuple[int, str]:
        """A command line, its exit status and what it printed to stdout."""
        result = invoke(list(words))
        return result.exit_code, result.stdout

    def sum(self, table: str) -> int:
        """Sum of `n` in the snapshot of a table."""
        folder = self.path.parent / "snapshot" / f"public.{table}"
        return sum(filter(None, pq.read_table(folder)["n"].to_pylist()))


@pytest.fixture
def shop(
    tmp_path: Path, postgres: LocalPostgres, servers: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    skip_without("postgres")
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    made = Shop(tmp_path, postgres, servers)
    yield made
    made.execute(f"SELECT pg_drop_replication_slot('{made.name}')")


def test_tables_are_found_and_followed_as_they_come_and_go(shop: Shop) -> None:
    template = Template(shop.path)
    found = table_pipelines.find(template)
    assert found.added == ["public.one", "public.two"]
    assert list(found.refused) == ["public.odd"]
    assert "it has no primary key" in found.refused["public.odd"]
    assert list(found.left_out) == ["public.one.twice"]
    one, two = (template.load(table).pipeline for table in found.added)
    assert one.topics[0].value_columns == {
        "id": "bigint",
        "n": "int",
        "c": "string",
        "at": "timestamp",
        "tags": "array<string>",
        "price": "decimal(12,2)",
    }
    assert one.ignored_columns == ["twice"]
    assert sorted(two.sink.key) == ["a", "b"]

    shop.execute("CREATE TABLE three (id int PRIMARY KEY)", "DROP TABLE two")
    # A look at how the tables are says both, and writes nothing.
    status, text = shop.run("status", str(shop.path))
    assert status == 0, text
    assert "public.three: in the database, without a pipeline" in text
    assert "public.two: no longer in the database" in text
    assert template.tables() == ["public.one", "public.two"]
    again = table_pipelines.find(template)
    assert (again.added, again.known) == (["public.three"], ["public.one"])
    assert again.gone == ["public.two"]
    assert "public.two: no longer in the database" in "\n".join(again.lines())
    assert template.tables() == ["public.one", "public.three", "public.two"]


def test_a_table_of_any_name_is_copied(shop: Shop) -> None:
    names = ["Größe/1", 'a "b".c', "x*'y"]
    for name in names:
        quoted = name.replace('"', '""')
        shop.execute(
            f'CREATE TABLE "{quoted}" (id int PRIMARY KEY)', f'INSERT INTO "{quoted}" VALUES (7)'
        )
        create_topic(shop.servers, f"{shop.name}.public.{topic_part(name)}", 1)
    status, text = shop.run("snapshot", str(shop.path))
    assert status == 0, text
    template = Template(shop.path)
    assert set(template.tables()) == {
        *(f"public.{name}" for name in names),
        *("public.one", "public.two"),
    }
    for name in names:
        [folder] = template.load(f"public.{name}").pipeline.sources[0].patterns
        path = shop.path.parent / Path(folder).parent
        assert pq.read_table(path)["id"].to_pylist() == [7]


def test_all_tables_are_copied_as_of_one_point_in_time(shop: Shop) -> None:
    stop, is_moving = threading.Event(), threading.Event()

    def move() -> None:
        with psycopg.connect(shop.dsn) as connection:
            while not stop.is_set():
                connection.execute("UPDATE one SET n = n - 1")
                connection.execute("UPDATE two SET n = n + 1")
                connection.commit()
                is_moving.set()

    mover = threading.Thread(target=move)
    mover.start()
    assert is_moving.wait(60)
    try:
        status, text = shop.run("snapshot", str(shop.path))
    finally:
        stop.set()
        mover.join()
    assert status == 0, text
    assert shop.sum("one") + shop.sum("two") == MONEY
    assert shop.sum("two") > 0


def test_dagster_copies_all_tables_by_one_asset_and_says_what_is_new(shop: Shop) -> None:
    result = dg.materialize(
        [template_definitions(Template(shop.path)).resolve_asset_graph().assets_defs[0]]
    )
    [seen] = result.asset_materializations_for_node("shop__tables")
    assert seen.metadata["pipelines"].value == 2
    assert seen.metadata["added (load the code location again)"].value == "public.one, public.two"
    assert "public.odd" in str(seen.metadata["not captured"].value)
    assert shop.sum("one") == MONEY
    # What is copied needs no database.
    template = Template(shop.path)
    document = yaml.safe_load(shop.path.read_text())
    dsn = " ".join(each for each in shop.dsn.split() if not each.startswith("port=")) + " port=1"
    document["database"]["dsn"] = dsn
    shop.path.write_text(yaml.safe_dump(document))
    assert table_pipelines.copy(Template(shop.path), print) is None
    assert template.tables() == ["public.one", "public.two"]


def test_a_table_that_cannot_be_copied_holds_up_no_other(shop: Shop) -> None:
    template = Template(shop.path)
    table_pipelines.find(template)
    shop.execute("ALTER TABLE one ADD COLUMN later int")
    every = [template.load(table) for table in template.tables()]
    taken = snapshots.take_together(every, lambda _: None)
    assert isinstance(taken["shop_public_one"], HybridError)
    assert "a column `later`" in str(taken["shop_public_one"])
    assert not isinstance(taken["shop_public_two"], HybridError)
    # What is complete is not read again.
    assert list(snapshots.take_together(every, lambda _: None)) == ["shop_public_one"]


def test_a_command_on_the_file_acts_on_each_table_and_on_one_that_is_named(shop: Shop) -> None:
    status, text = shop.run("status", str(shop.path))
    assert status == 2, text
    status, text = shop.run("tables", str(shop.path), "--json")
    found = json.loads(text)
    assert status == 1
    assert found["added"] == ["public.one", "public.two"]
    status, text = shop.run("status", str(shop.path))
    assert text.splitlines() == [
        "public.one: not live: snapshot waiting, changes waiting",
        "public.two: not live: snapshot waiting, changes waiting",
    ]
    status, text = shop.run("status", str(shop.path), "--json")
    assert (json.loads(text)["new"], json.loads(text)["gone"]) == ([], [])
    status, text = shop.run("validate", str(shop.path), "--json")
    answers = json.loads(text)["tables"]
    assert status == 0
    assert answers["public.two"]["pipeline"] == "shop_public_two"
    status, text = shop.run("validate", f"{shop.path}/public.two", "--json")
    assert json.loads(text)["pipeline"] == "shop_public_two"
    assert shop.run("validate", f"{shop.path}/public.odd")[0] == 2
