"""A table's snapshot as the first step of its chain: it is there, kept, and told."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from hybrid_extensions.cdc import snapshots
from hybrid_extensions.cdc.databases.snapshot_copy import SnapshotCopy
from orchestration.chain import ChainRun, run_step, steps_of
from orchestration.defs.assets.chain_assets import pipeline_assets
from orchestration.defs.show import dagster_failures
from sources.common.database_snapshot import PostgresSnapshot
from sources.config.loader import declare, load_pipeline
from sources.config.source.snapshot import MANIFEST, Chunk, SnapshotManifest
from sources.errors import InputError
from tests.e2e.changes.cdc_case import INCLUDE
from tests.minimal import minimal_declaration
from tests.orchestration.generations.generation_case import GenerationCase

NOBODY = {"dsn": "slotted://reader@localhost:1/shop", "slot": "shop"}
SEEN = PostgresSnapshot(lsn=77, xmin=5, xmax=9, in_progress=[6], taken_ms=1_700_000_000_000)


def make(folder: Path, **changes: Any) -> Path:
    document = minimal_declaration(
        {
            "name": "snapshot",
            "type": "files",
            "path": "snapshot/*.parquet",
            "format": "parquet",
            "snapshot": NOBODY,
        },
        {
            "name": "changes",
            "type": "kafka",
            "topic": "shop.public.orders",
            "bootstrap_servers": "localhost:1",
            "format": "debezium",
            "table": "public.orders",
            "schema": {"id": "bigint"},
            "include": INCLUDE,
            **changes,
        },
        event_time="_committed_at",
        sink={
            "path": "out",
            "mode": "merge",
            "key": ["id"],
            "sequence": "_position",
            "deleted": "_deleted",
        },
    )
    return declare(folder / "orders.yaml", document).path


def test_the_snapshot_is_the_first_step_and_others_have_none(tmp_path: Path) -> None:
    loaded = load_pipeline(make(tmp_path))
    steps = [step.name for step in steps_of(loaded)]
    assert steps == ["take_snapshot", "plan", "snapshot", "changes_handover", "changes"]
    first, second, *_ = pipeline_assets(loaded)
    assert first.key == dg.AssetKey(["orders", "take_snapshot"])
    assert second.asset_deps[second.key] == {first.key}
    document = yaml.safe_load(loaded.path.read_text())
    document["sources"][0]["snapshot"]["follow"] = "while_reading"
    beside = declare(loaded.path, document)
    *_, last = steps_of(beside)
    assert last.name == "rest_of_snapshot"
    *_, live, rest = pipeline_assets(beside)
    assert rest.asset_deps[rest.key] == {live.key}
    other = GenerationCase(tmp_path).loaded
    assert [step.name for step in steps_of(other)] == ["plan", "history"]
    with pytest.raises(InputError, match="declares a `snapshot`"):
        snapshots.take(other, lambda _: None)


@pytest.mark.kafka
def test_before_it_a_missing_topic_is_created_or_waited_for_or_refused(
    tmp_path: Path, servers: str
) -> None:
    topic = f"shop.public.t{uuid.uuid4().hex[:8]}"
    there = {"topic": topic, "bootstrap_servers": servers}

    def begin(**changes: Any) -> None:
        loaded = load_pipeline(make(tmp_path, **there, **changes))
        SnapshotCopy(loaded, loaded.pipeline.file_source("snapshot"), print).note_log_end()

    with pytest.raises(InputError, match=f"There is no topic `{topic}`"):
        begin()
    begin(missing_topic="wait")
    with pytest.raises(InputError, match=f"There is no topic `{topic}`"):
        begin()
    begin(missing_topic={"create": {}})
    begin()


@pytest.mark.slow
def test_a_database_that_is_not_there_fails_the_asset_with_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dagster_failures, "RETRY_POLICY", dg.RetryPolicy(max_retries=1, delay=0))
    loaded = load_pipeline(make(tmp_path))
    first, *_ = pipeline_assets(loaded)
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([first], instance=instance, raise_on_error=False)
    assert not done.success
    [failed] = [e for e in done.all_events if e.event_type_value == "STEP_FAILURE"]
    told = failed.step_failure_data.user_failure_data
    assert told is not None
    assert "localhost:1" in str(told.description)
    assert not (tmp_path / "snapshot" / MANIFEST).exists()


def write_manifest(folder: Path, table: str) -> None:
    """Write the manifest of a table's snapshot that is complete, with one chunk of three rows."""
    (folder / "snapshot").mkdir()
    manifest = SnapshotManifest(
        table=table,
        key=None,
        bounds=[],
        snapshots=[SEEN],
        offsets={},
        done={0: Chunk(rows=3, snapshot=0)},
    )
    (folder / "snapshot" / MANIFEST).write_text(manifest.model_dump_json())


def test_a_snapshot_that_is_there_is_told_without_asking_the_database(tmp_path: Path) -> None:
    loaded = load_pipeline(make(tmp_path))
    write_manifest(tmp_path, "public.orders")
    outcome = run_step(ChainRun(loaded), "take_snapshot")
    assert outcome.document["snapshots"][0]["rows"] == 3
    assert "3 rows of public.orders as of 2023-11-14T22:13:20Z" in outcome.text
    first, *_ = pipeline_assets(loaded)
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([first], instance=instance)
    [event] = done.get_asset_materialization_events()
    shown = event.materialization.metadata
    assert shown["dagster/row_count"].value == 3
    table = shown["snapshots"]
    assert isinstance(table, dg.TableMetadataValue)
    [row] = table.records
    assert (row.data["LSN"], row.data["transactions in flight"]) == (77, 1)


def test_a_snapshot_of_another_table_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    # As after a pipeline's file was copied, and only the topic changed.
    loaded = load_pipeline(make(tmp_path))
    write_manifest(tmp_path, "public.orders_2023")
    with pytest.raises(
        InputError, match=r"of table `public\.orders_2023`.* of `public\.orders`"
    ) as seen:
        run_step(ChainRun(loaded), "take_snapshot")
    assert "another `path`" in seen.value.hint
