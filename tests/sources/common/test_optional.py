"""Packages that only extras install: refused by name where they are missing, not needed elsewhere.

A package is taken away by ``sys.modules[name] = None``: Python then raises what it raises for one
that is not installed (https://docs.python.org/3/reference/import.html#the-module-cache).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from sources.common.optional import MODULES, needs_extra, require_extra
from sources.config.loader import load_pipeline
from sources.config.requirements import require_extras
from sources.errors import InputError
from tests.extensions import needs, skip_without_those_of
from tests.minimal import minimal_declaration

ROOT = Path(__file__).parents[3]
COLUMNS = {"id": "bigint", "at": "timestamp"}
FILES = {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"}
TOPIC = {
    "name": "live",
    "type": "kafka",
    "topic": "events",
    "bootstrap_servers": "kafka:9092",
    "schema": COLUMNS,
}
REGISTRY = {"url": "http://registry:8081"}
CHANGES = {
    **TOPIC,
    "format": "debezium",
    "table": "public.events",
    "include": {
        "_position": "position",
        "_lsn": "lsn",
        "_transaction": "transaction",
        "_committed_at": "committed_at",
        "_deleted": "deleted",
    },
}
SNAPSHOT = {"dsn": "postgresql://db/shop", "slot": "events"}


def take_away(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    monkeypatch.setitem(sys.modules, MODULES[extra], None)


def declare(folder: Path, **changes: Any) -> Path:
    document = minimal_declaration(
        FILES, TOPIC, name="events", key=["id"], allowed_lateness="1 h", **changes
    )
    (folder / "transforms.py").write_text("def identity(rows):\n    return rows\n")
    path = folder / "events.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


AVRO_FILES = {**FILES, "path": "in/*.avro", "format": "avro", "schema": COLUMNS}
AVRO_TOPIC = {**TOPIC, "format": "avro", "registry": REGISTRY}
TAKEN_OVER = {**FILES, "snapshot": SNAPSHOT}


@pytest.mark.parametrize(
    ("extra", "sources", "what"),
    [
        ("avro", [AVRO_FILES, TOPIC], "Source `history`: `format: avro`"),
        ("avro", [FILES, AVRO_TOPIC], "Source `live`: `format: avro`"),
        ("registry", [FILES, AVRO_TOPIC], "Source `live`: `registry`"),
        ("hdfs", [{**FILES, "path": "hdfs://nn/in/*.parquet"}, TOPIC], "an `hdfs://` path"),
        pytest.param(
            "postgres",
            [TAKEN_OVER, CHANGES],
            "Source `history`: `snapshot`",
            marks=needs("postgres"),
        ),
        ("avro", [FILES, {**CHANGES, "registry": REGISTRY}], "Source `live`: `registry`"),
        ("registry", [FILES, {**CHANGES, "registry": REGISTRY}], "Source `live`: `registry`"),
    ],
)
def test_a_declaration_that_needs_a_missing_package_is_refused_by_its_source_and_extra(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    extra: str,
    sources: list[dict[str, Any]],
    what: str,
) -> None:
    changes: dict[str, Any] = {"sources": sources}
    skip_without_those_of(changes)
    if sources[1]["type"] == "kafka" and sources[1].get("format") == "debezium":
        changes["sink"] = {"path": "out", "mode": "merge", "key": ["id"]}
        changes["sink"] |= {"sequence": "_position", "deleted": "_deleted"}
        changes["event_time"] = "_committed_at"
    pipeline = load_pipeline(declare(tmp_path, **changes)).pipeline
    require_extras(pipeline)
    take_away(monkeypatch, extra)
    with pytest.raises(InputError) as caught:
        require_extras(pipeline)
    assert what in caught.value.message
    assert MODULES[extra] in caught.value.message
    assert caught.value.hint == (
        f"Install it where this command ran: `pip install 'hybrid-backfill[{extra}]'`."
    )
    assert caught.value.fields == {"extra": extra}


def test_an_import_that_works_is_left_alone() -> None:
    with needs_extra("plots", "A picture"):
        import json  # noqa: PLC0415
    assert json is sys.modules["json"]
    require_extra("plots", "A picture")


WITHOUT = """
import sys
for name in {names!r}:
    sys.modules[name] = None
import orchestration.definitions
import sources.decoding.changes.envelopes
import sources.files.format_registry
import spark_jobs.inside.readers.staged_bad_records, spark_jobs.inside.readers.files.planned_files
import spark_jobs.inside.readers.topics.parse_records, spark_jobs.inside.query.streaming_query
from orchestration.cli.main import main
main()
"""


@pytest.mark.slow
def test_files_and_json_topics_need_no_extra(tmp_path: Path) -> None:
    path = declare(tmp_path)
    code = WITHOUT.format(names=sorted(MODULES.values()))
    done = subprocess.run(
        [sys.executable, "-c", code, "validate", str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HYBRID_PIPELINES": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "history → live is a valid pipeline" in done.stdout


def test_each_extra_is_known_and_part_of_all() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    [everything] = extras["all"]
    found = re.fullmatch(r"hybrid-backfill\[(.+)\]", everything)
    assert found is not None
    assert set(found.group(1).split(",")) == set(MODULES)
    assert set(MODULES) <= set(extras)
