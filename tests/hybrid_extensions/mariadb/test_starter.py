"""`hybrid init --mariadb`: everything that captures tables, of a real server."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
from hybrid_extensions.servers.databases.mysql import LocalMySql
from sources.config.loader import load_pipeline
from tests.command_line import invoke

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(mariadb: LocalMariaDb, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"shop_{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("MYSQL_PWD", mariadb.password)
    mariadb.execute(
        f"CREATE DATABASE {name} CHARACTER SET utf8mb4",
        f"CREATE TABLE {name}.orders (id BIGINT UNSIGNED PRIMARY KEY, amount DECIMAL(12,2), "
        "placed DATETIME(6), twice INT AS (id * 2) STORED)",
        f"CREATE TABLE {name}.keyless (v TEXT)",
    )
    return name


def init(folder: Path, dsn: str, *more: str) -> tuple[int, str]:
    command = ["init", "shop", "--mariadb", dsn, "--servers", "kafka:9092", "--folder", str(folder)]
    result = invoke([*command, *more])
    return result.exit_code, " ".join(result.output.split())


def test_everything_that_a_capture_needs_is_written(
    tmp_path: Path, mariadb: LocalMariaDb, shop: str
) -> None:
    code, output = init(tmp_path, mariadb.dsn(shop), "--tables", f"{shop}.orders")
    assert code == 0, output
    pipeline = load_pipeline(tmp_path / "orders.yaml").pipeline
    (topic,) = pipeline.topics
    assert topic.value_columns == {
        "id": "decimal(20,0)",
        "amount": "decimal(12,2)",
        "placed": "timestamp",
    }
    assert (pipeline.ignored_columns, pipeline.changes_target) == (["twice"], True)
    assert pipeline.sink.key == ["id"]
    assert f"Column `twice` of table `{shop}.orders` is left out: it is generated" in output
    config = json.loads((tmp_path / "shop_connector.json").read_text())["config"]
    assert config["connector.class"] == "io.debezium.connector.mariadb.MariaDbConnector"
    assert config["database.password"] == "${env:MYSQL_PWD}"
    topics = (tmp_path / "shop_topics.sh").read_text()
    assert "--topic shop --partitions 1 " in topics
    assert "--topic __debezium-heartbeat.shop --partitions 1 " in topics
    assert f"--topic shop.{shop}.orders --partitions 3 " in topics
    # It is in the environment already.
    assert "MYSQL_PWD=…" not in output
    assert f"hybrid run {tmp_path}/orders.yaml" in output
    assert "Without `--connect` nothing tells how far the connector has read" in output
    assert not any(mariadb.password in path.read_text() for path in tmp_path.iterdir())


def test_a_table_of_any_name_gets_the_topic_that_debezium_writes_to(
    tmp_path: Path, mariadb: LocalMariaDb, shop: str
) -> None:
    mariadb.execute(f"CREATE TABLE {shop}.`Größe (x)` (id int PRIMARY KEY)")
    code, output = init(tmp_path, mariadb.dsn(shop), "--tables", f"{shop}.Größe (x)")
    assert code == 0, output
    (topic,) = load_pipeline(tmp_path / "gr_e_x.yaml").pipeline.topics
    assert topic.topic == f"shop.{shop}.Gr__e__x_"
    assert f"--topic shop.{shop}.Gr__e__x_ " in (tmp_path / "shop_topics.sh").read_text()
    config = json.loads((tmp_path / "shop_connector.json").read_text())["config"]
    assert config["table.include.list"] == f"{shop}.Größe\\ \\(x\\)"


def test_mysql_has_a_connector_of_its_own(
    tmp_path: Path, mysql: LocalMySql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_PWD", mysql.password)
    name = f"shop_{uuid.uuid4().hex[:8]}"
    mysql.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id int NOT NULL UNIQUE)")
    given = ["--tables", f"{name}.t", "--folder", str(tmp_path)]
    result = invoke(["init", "shop", "--mysql", mysql.dsn(name), *given])
    assert result.exit_code == 0, result.output
    assert load_pipeline(tmp_path / "t.yaml").pipeline.sink.key == ["id"]
    config = json.loads((tmp_path / "shop_connector.json").read_text())["config"]
    assert config["connector.class"] == "io.debezium.connector.mysql.MySqlConnector"
    # The login is over TLS.
    assert "driver.allowPublicKeyRetrieval" not in config


def test_a_known_connector_is_asked_how_far_it_has_read(
    tmp_path: Path, mariadb: LocalMariaDb, shop: str
) -> None:
    given = ["--tables", f"{shop}.orders", "--connect", "http://connect:8083/"]
    code, output = init(tmp_path, mariadb.dsn(shop), *given)
    assert code == 0, output
    snapshot = load_pipeline(tmp_path / "orders.yaml").pipeline.sources[0].snapshot
    assert snapshot is not None
    assert snapshot.connector == "http://connect:8083/connectors/shop"
    assert f"--data @{tmp_path / 'shop_connector.json'} http://connect:8083/connectors " in output
    assert "Without `--connect`" not in output


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("nothing", "There is no table"),
        ("keyless", "has no primary key"),
    ],
)
def test_what_can_not_be_captured_leaves_nothing_behind(
    tmp_path: Path, mariadb: LocalMariaDb, shop: str, table: str, told: str
) -> None:
    code, output = init(tmp_path, mariadb.dsn(shop), "--tables", f"{shop}.{table}")
    assert (code, told in output) == (2, True)
    assert not list(tmp_path.iterdir())


def test_an_address_of_another_kind_is_refused(tmp_path: Path) -> None:
    code, output = init(tmp_path, "host=db dbname=shop user=reader", "--tables", "shop.orders")
    assert code == 2
    assert "`--mariadb` takes an address such as" in output
