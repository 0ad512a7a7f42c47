"""The worked example of an extension, installed as a distribution of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from confluent_kafka import Producer
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.servers.broker import create_topic

EXAMPLE = Path(__file__).parents[2] / "examples" / "extension"
DAGSTER = """
from pathlib import Path
from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import load_pipeline

made = pipeline_definitions(load_pipeline(Path("events.yaml")))
print([key.name for each in made.asset_checks for key in each.check_keys])
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
