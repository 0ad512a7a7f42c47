"""A pipeline of which nothing is on a shared path: state, checkpoint and target in a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.shop import make_shop
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.servers.connectors import Connectors
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from orchestration.operations import chain_plan, stopping
from sources.errors import StateError
from tests.e2e.case import Case, run_through, start_live, windows, wrong
from tests.e2e.changes.cdc_case import CdcCase, take_snapshot
from tests.services.lake import BUCKET, Edit, lake
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(params=["s3", "hdfs"])
def move(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Edit]:
    with lake(request.param, tmp_path) as made:
        yield made


def test_files_then_the_topic_with_state_checkpoint_and_target_in_a_bucket(
    tmp_path: Path, servers: str, move: Edit
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(600))
    case.produce(range(500, 900))
    loaded = case.pipeline(move)
    report = run_through(loaded)
    assert (report.expected, wrong(report)) == (900, {})
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "out").exists()


def test_the_state_of_windows_is_kept_in_a_bucket_from_history_into_the_stream(
    tmp_path: Path, servers: str
) -> None:
    def edit(document: dict[str, Any]) -> None:
        windows(document)
        move(document)

    with lake("s3", tmp_path) as move:
        case = Case(tmp_path, servers)
        case.write_history(range(600))
        case.produce(range(500, 900))
        loaded = case.pipeline(edit)
        report = run_through(loaded)
        assert report.expected > 0
        assert wrong(report) == {}
        kept = loaded.require_generation().checkpoint.names("state/*")
    # Spark uploads RocksDB's files by another client than all others.
    assert any(name.endswith((".zip", ".changelog")) for name in kept), kept


def test_a_database_is_taken_over_with_its_snapshot_in_a_bucket_too(
    tmp_path: Path, servers: str, postgres: LocalPostgres, connect: Connectors
) -> None:
    with lake("s3", tmp_path) as move:
        case = CdcCase(tmp_path, postgres, servers, connect)
        make_shop(case.dsn, 1000)
        case.capture(["public.orders"], snapshot_mode="no_data")

        def in_the_bucket(document: dict[str, Any]) -> None:
            move(document)
            document["sources"][0]["path"] = f"s3://{BUCKET}/snapshot/orders/*.parquet"

        loaded = case.pipeline(edit=in_the_bucket)
        try:
            case.execute("DELETE FROM orders WHERE id % 10 = 3")
            with pytest.raises(StateError, match=f"no snapshot .* in s3://{BUCKET}/snapshot"):
                chain_plan.plan(loaded)
            assert len(take_snapshot(loaded).done) == 5
            case.execute(
                "UPDATE orders SET amount = amount + 7 WHERE id % 10 = 4",
                "DELETE FROM orders WHERE id % 10 = 5",
            )
            start_live(loaded)
            wait_for(lambda: compare_with_source(loaded).ok, "all changes", 120)
        finally:
            stopping.stop(loaded)
            case.end()
    assert not (tmp_path / "snapshot").exists()
