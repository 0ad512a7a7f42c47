"""`hybrid init --postgres`: everything that captures tables, of a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.config.loader import load_pipeline
from tests.command_line import invoke

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[LocalPostgres]:
    with LocalPostgres() as running:
        with psycopg.connect(running.dsn, password=running.password, autocommit=True) as connection:
            for statement in (
                "CREATE TYPE mood AS ENUM ('good', 'bad')",
                "CREATE DOMAIN price AS numeric(12,2)",
                "CREATE TABLE orders (line int, id bigint, customer varchar(20), amount price, "
                "any_number numeric, placed timestamptz, day date, paid boolean, receipt bytea, "
                "feeling mood, tags text[], at timestamp, due interval, "
                "twice int GENERATED ALWAYS AS (line * 2) STORED, PRIMARY KEY (id, line))",
                "CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
                "CREATE TABLE keyless (v text)",
            ):
                connection.execute(statement)
        yield running


@pytest.fixture
def dsn(server: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PGPASSWORD", server.password)
    return server.dsn


def init(folder: Path, dsn: str, *more: str) -> tuple[int, str]:
    command = [
        "init",
        "shop",
        "--postgres",
        dsn,
        "--servers",
        "kafka:9092",
        "--folder",
        str(folder),
    ]
    result = invoke([*command, *more])
    return result.exit_code, result.output


def test_everything_that_a_capture_needs_is_written(
    tmp_path: Path, dsn: str, server: LocalPostgres
) -> None:
    code, output = init(tmp_path, dsn, "--tables", "public.orders,public.parts")
    assert code == 0, output
    names = {"orders.yaml", "parts.yaml", "shop_transform.py", "shop_connector.json"}
    assert {path.name for path in tmp_path.iterdir()} == {*names, "shop_topics.sh"}
    pipeline = load_pipeline(tmp_path / "orders.yaml").pipeline
    (topic,) = pipeline.topics
    assert topic.value_columns == {
        "line": "int",
        "id": "bigint",
        "customer": "string",
        "amount": "decimal(12,2)",
        "any_number": "string",
        "placed": "timestamp",
        "day": "date",
        "paid": "boolean",
        "receipt": "binary",
        "feeling": "string",
        "tags": "array<string>",
        "at": "timestamp",
    }
    assert pipeline.ignored_columns == ["due", "twice"]
    assert (pipeline.sink.key, pipeline.sink.unchanged) == (["id", "line"], "_unchanged")
    assert "Column `due` of table `public.orders` is left out: type" in " ".join(output.split())
    connector = json.loads((tmp_path / "shop_connector.json").read_text())
    assert connector["name"] == "shop"
    assert connector["config"]["table.include.list"] == "public.orders,public.parts"
    assert connector["config"]["publish.via.partition.root"] == "true"
    assert "--topic shop.public.orders --partitions" in (tmp_path / "shop_topics.sh").read_text()
    written = [f"sh {tmp_path}/shop_topics.sh", f"@{tmp_path}/shop_connector.json"]
    for each in (*written, f"hybrid run {tmp_path}/orders.yaml"):
        # Long paths are broken at the terminal's width.
        assert "".join(each.split()) in "".join(output.split())
    assert not any(server.password in path.read_text() for path in tmp_path.iterdir())
    again = init(tmp_path, dsn, "--tables", "public.orders")
    snapshot = pipeline.bounded_files[0].snapshot
    assert snapshot is not None
    assert snapshot.connector is None
    assert again[0] == 2
    assert "exists already; nothing was written" in again[1].replace("\n", " ")


def test_the_connector_is_declared_where_kafka_connect_is_known(tmp_path: Path, dsn: str) -> None:
    given = ["--tables", "public.orders", "--connect", "http://connect:8083/"]
    code, output = init(tmp_path, dsn, *given)
    assert code == 0, output
    snapshot = load_pipeline(tmp_path / "orders.yaml").pipeline.bounded_files[0].snapshot
    assert snapshot is not None
    assert snapshot.connector == "http://connect:8083/connectors/shop"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--tables", "public.nothing"], "There is no table `public.nothing`"),
        (["--tables", "public.keyless"], "has no primary key"),
        ([], "needs the tables to capture"),
    ],
)
def test_what_can_not_be_captured_leaves_nothing_behind(
    tmp_path: Path, dsn: str, more: list[str], told: str
) -> None:
    code, output = init(tmp_path, dsn, *more)
    assert code == 2
    # There is no pipeline yet.
    assert "hybrid snapshot" not in output
    assert told in " ".join(output.split())
    assert not list(tmp_path.iterdir())


def test_a_password_does_not_land_in_a_file(tmp_path: Path, dsn: str) -> None:
    code, output = init(tmp_path, f"{dsn} password=hunter2", "--tables", "public.orders")
    assert code == 2
    assert "hunter2" not in output
    assert not list(tmp_path.iterdir())


def test_files_and_a_database_exclude_each_other(tmp_path: Path, dsn: str) -> None:
    assert init(tmp_path, dsn, "--files", "*.csv")[0] == 2
