"""The worked example of an extension, installed as a distribution of its own."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from confluent_kafka import Producer
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.servers.broker import create_topic
from tests.services.processes import wait_for

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "extension"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DAGSTER = """
from pathlib import Path
from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import load_pipeline

made = pipeline_definitions(load_pipeline(Path("events.yaml")))
print([key.name for each in made.asset_checks for key in each.check_keys])
"""
NEW = """
from pathlib import Path
import dagster as dg
from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import load_pipeline

job = pipeline_definitions(load_pipeline(Path("orders.yaml"))).resolve_job_def("orders")
done = job.execute_in_process(
    instance=dg.DagsterInstance.ephemeral(),
    asset_selection=[dg.AssetKey(["orders", name]) for name in ("history_export", "plan")],
    run_config={"ops": {"orders__plan": {"config": {"generation": "NEW"}}}},
)
first, *_ = done.get_asset_materialization_events()
print(first.asset_key.to_user_string(), first.materialization.metadata["files"].value)
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distribution, as pip installs it."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    # A build leaves files beside the source.
    source = tmp_path_factory.mktemp("source") / "extension"
    subprocess.run(["cp", "-r", str(EXAMPLE), str(source)], check=True)
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    return folder


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    """Runs Python where the extension is installed, in a folder with a pipeline and its table."""
    document = {
        "name": "events",
        "sources": [
            {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"}
        ],
        "event_time": "at",
        "transform": "events:rows",
        "sink": {"path": "table", "mode": "append", "key": ["id"]},
        "state": "state",
        "row_count": {"at_least": 3},
    }
    (tmp_path / "events.yaml").write_text(yaml.safe_dump(document))
    write_deltalake(tmp_path / "table", pa.table({"id": [1, 2]}))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


HYBRID = ("-c", "from orchestration.cli.main import main; main()")


def test_the_command_of_an_extension_is_a_command_of_hybrid(run: Run) -> None:
    done = run(*HYBRID, "count", "events.yaml", "--json")
    assert json.loads(done.stdout) == {"ok": True, "rows": 2}


def test_an_extensions_part_of_the_status_can_make_the_pipeline_unhealthy(run: Run) -> None:
    done = run(*HYBRID, "status", "events.yaml", "--json")
    found = json.loads(done.stdout)
    assert found["row_count"] == {"rows": 2, "at_least": 3}
    assert (found["ok"], done.returncode) == (False, 1)


def test_the_check_of_an_extension_is_a_check_of_the_table(run: Run) -> None:
    done = run("-c", DAGSTER)
    assert "row_count" in done.stdout, done.stderr


def test_an_extensions_field_is_documented_and_a_wrong_value_refused_by_name(
    run: Run, tmp_path: Path
) -> None:
    assert "| `row_count` | [RowCount](#rowcount) |" in run(*HYBRID, "reference").stdout
    path = tmp_path / "events.yaml"
    path.write_text(path.read_text().replace("at_least: 3", "at_most: 3"))
    done = run(*HYBRID, "validate", "events.yaml")
    assert done.returncode == 2
    assert "row_count.at_most: unknown field; did you mean `at_least`?" in done.stderr


def forms(servers: str = "broker:9092", topic: str = "forms", **schema: str) -> dict[str, Any]:
    source = {
        "name": "forms",
        "type": "kafka",
        "bootstrap_servers": servers,
        "topic": topic,
        "format": "form",
        "schema": {"id": "string", "name": "string", "at": "string", **schema},
        "select": {"id": "CAST(id AS BIGINT)", "name": "name", "at": "CAST(at AS TIMESTAMP)"},
        "start": "earliest",
        "until": "latest",
    }
    return {
        "name": "forms",
        "sources": [source],
        "event_time": "at",
        "key": ["id"],
        "transform": {"sql": "forms.sql"},
        "sink": {"path": "table", "mode": "append", "key": ["id"]},
        "state": "state",
    }


def test_an_extensions_value_format_refuses_a_column_that_it_can_not_fill(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "forms.sql").write_text("SELECT * FROM input")
    (tmp_path / "forms.yaml").write_text(yaml.safe_dump(forms()))
    assert run(*HYBRID, "validate", "forms.yaml").returncode == 0
    (tmp_path / "forms.yaml").write_text(yaml.safe_dump(forms(id="bigint")))
    done = run(*HYBRID, "validate", "forms.yaml")
    assert done.returncode == 2
    assert "`schema.id: bigint`: fields of a form are texts" in done.stderr


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.kafka
def test_a_topic_in_its_format_is_read_by_tasks_and_proved_by_the_audit(
    run: Run, tmp_path: Path, servers: str
) -> None:
    topic = f"forms-{tmp_path.name}"
    create_topic(servers, topic, 2, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": servers})
    for at in range(500):
        producer.produce(topic, f"id={at}&name=A%26{at}&at=2026-01-01T00:00:{at % 60:02}Z".encode())
    producer.flush()
    shutil.rmtree(tmp_path / "table")
    (tmp_path / "forms.sql").write_text("SELECT * FROM input")
    (tmp_path / "forms.yaml").write_text(yaml.safe_dump(forms(servers, topic)))
    done = run(*HYBRID, "run", "forms.yaml")
    assert done.returncode == 0, done.stderr
    rows = DeltaTable(tmp_path / "table").to_pyarrow_table().sort_by("id")
    assert rows["id"].to_pylist() == [*range(500)]
    assert rows["name"][7].as_py() == "A&7"
    done = run(*HYBRID, "audit", "forms.yaml")
    assert done.returncode == 0, done.stderr


def of_sqlite(**more: Any) -> dict[str, Any]:
    history = {
        "name": "history",
        "type": "sqlite",
        "database": "shop.db",
        "query": "SELECT id, name, placed AS at FROM orders",
        "key": "id",
        "schema": {"id": "bigint", "name": "string", "at": "timestamp"},
        "page_rows": 200,
    }
    return {
        "name": "orders",
        "sources": [{**history, **more}],
        "event_time": "at",
        "key": ["id"],
        "transform": {"sql": "orders.sql"},
        "sink": {"path": "orders", "mode": "append", "key": ["id"]},
        "state": "state",
    }


def write_orders(folder: Path, document: dict[str, Any]) -> None:
    """Write the pipeline, and a database with the orders 0 to 499, one each second."""
    (folder / "orders.sql").write_text("SELECT * FROM input")
    (folder / "orders.yaml").write_text(yaml.safe_dump(document))
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER, name TEXT, placed TEXT)")
        rows = [(number, f"n{number}", placed(number)) for number in range(500)]
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
        connection.commit()


def placed(number: int) -> str:
    return (BEGIN + timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_an_extensions_kind_of_source_has_its_fields_in_the_reference_and_in_refusals(
    run: Run, tmp_path: Path
) -> None:
    assert "## SqliteSource" in run(*HYBRID, "reference").stdout
    write_orders(tmp_path, of_sqlite(databse="shop.db"))
    done = run(*HYBRID, "validate", "orders.yaml")
    assert done.returncode == 2
    assert "sources.0.databse: unknown field; did you mean `database`?" in done.stderr


def test_an_extensions_source_is_exported_once_and_before_the_plan(
    run: Run, tmp_path: Path
) -> None:
    write_orders(tmp_path, of_sqlite())
    done = run(*HYBRID, "plan", "orders.yaml")
    assert "Source `history` is not exported yet" in done.stderr
    assert "hybrid step orders.yaml history_export" in done.stderr
    first = run(*HYBRID, "step", "orders.yaml", "history_export", "--json")
    assert first.returncode == 0, first.stderr
    assert len(json.loads(first.stdout)["files"]) == 3
    (tmp_path / "shop.db").unlink()
    again = run(*HYBRID, "step", "orders.yaml", "history_export", "--json")
    assert json.loads(again.stdout) == json.loads(first.stdout)


def test_of_an_export_that_is_killed_nothing_is_read(
    run: Run, installed: Path, tmp_path: Path
) -> None:
    write_orders(tmp_path, of_sqlite(page_rows=1))
    words = [sys.executable, *HYBRID, "step", "orders.yaml", "history_export"]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    exports = tmp_path / "state/orders/g1/exports"
    with subprocess.Popen(words, cwd=tmp_path, env=environment) as export:
        wait_for(lambda: any(exports.glob("*/*/*.parquet")), "a page is written")
        export.kill()
    assert not list(exports.glob("*.json")), "it was killed before its end"
    assert "is not exported yet" in run(*HYBRID, "plan", "orders.yaml").stderr
    assert run(*HYBRID, "step", "orders.yaml", "history_export").returncode == 0
    assert len(list(exports.glob("*/*/*.parquet"))) == 500


def test_a_key_that_does_not_identify_the_rows_ends_the_export(run: Run, tmp_path: Path) -> None:
    write_orders(tmp_path, of_sqlite(query="SELECT id / 2 AS id, name, placed AS at FROM orders"))
    done = run(*HYBRID, "step", "orders.yaml", "history_export")
    assert done.returncode == 2
    assert "`key: id` has 250 values in 500 rows" in done.stderr


def test_what_fails_in_the_kind_itself_names_the_distribution(run: Run, tmp_path: Path) -> None:
    write_orders(tmp_path, of_sqlite(query="SELECT id, name FROM orders"))
    done = run(*HYBRID, "step", "orders.yaml", "history_export")
    assert done.returncode != 0
    assert "OperationalError: no such column: at" in done.stderr
    assert "the distribution `hybrid-row-count`" in done.stderr


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.kafka
def test_an_exported_source_is_followed_by_a_topic_and_proved_by_the_audit(
    run: Run, tmp_path: Path, servers: str
) -> None:
    topic = f"orders-{tmp_path.name}"
    create_topic(servers, topic, 2, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": servers})
    for number in range(400, 600):
        row = {"id": number, "name": f"n{number}", "at": placed(number)}
        time_ms = int((BEGIN + timedelta(seconds=number)).timestamp() * 1000)
        producer.produce(topic, json.dumps(row).encode(), partition=number % 2, timestamp=time_ms)
    producer.flush()
    live = {
        "name": "live",
        "type": "kafka",
        "bootstrap_servers": servers,
        "topic": topic,
        "schema": {"id": "bigint", "name": "string", "at": "timestamp"},
        "until": "latest",
    }
    document = of_sqlite()
    document["sources"].append(live)
    write_orders(tmp_path, document)
    done = run(*HYBRID, "run", "orders.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = DeltaTable(tmp_path / "orders").to_pyarrow_table().sort_by("id")
    assert rows["id"].to_pylist() == [*range(600)]
    done = run(*HYBRID, "audit", "orders.yaml", "--json")
    assert json.loads(done.stdout)["outcome"] == "passed", done.stdout
    # A new generation exports what is there then; the one before keeps its own files.
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("DELETE FROM orders WHERE id >= 200")
        connection.commit()
    done = run("-c", NEW)
    assert "orders/history_export 3" in done.stdout, done.stderr
    found = sorted((tmp_path / "state/orders").glob("g*/exports/*/*/*.parquet"))
    assert [path.parts[-5] for path in found] == ["g1", "g1", "g1", "g2"]


def test_without_the_distribution_its_field_is_unknown(run: Run, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *HYBRID, "validate", "events.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "row_count: unknown field" in done.stderr
