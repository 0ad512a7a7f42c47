"""Several databases hold one table: their rows meet in one target, with the shard in its key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from examples.shop import make_shop
from hybrid_extensions.audit.run import audit
from hybrid_extensions.cdc import snapshots
from hybrid_extensions.cdc.databases.snapshot_copy import SnapshotCopy
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.servers.connectors import Connectors
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from tests.command_line import invoke
from tests.e2e.case import wrong
from tests.e2e.changes.cdc_case import INCLUDE, ORDERS, CdcCase, is_equal
from tests.e2e.changes.shard_case import sharded
from tests.e2e.in_session import run_chain, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def shards(
    tmp_path: Path, postgres: LocalPostgres, servers: str, connect: Connectors
) -> Iterator[list[CdcCase]]:
    """Two databases with the same keys, each with a connector; other rows have each key."""
    made = [CdcCase(tmp_path, postgres, servers, connect) for _ in range(2)]
    for number, each in enumerate(made):
        make_shop(each.dsn, 600)
        each.execute(f"UPDATE orders SET customer = 'of shard {number}'")
    yield made
    for each in made:
        each.end()


def topic_of(shard: CdcCase) -> str:
    return f"{shard.name}.public.orders"


def pipeline(folder: Path, shards: list[CdcCase]) -> LoadedPipeline:
    """One target for all shards."""
    topic = {
        "bootstrap_servers": shards[0].servers,
        "table": "public.orders",
        "schema": ORDERS,
        "include": INCLUDE,
    }
    snapshots = {topic_of(shard): {"dsn": shard.dsn, "slot": shard.name} for shard in shards}
    return sharded(folder, snapshots, topic)


def test_each_shard_is_followed_by_its_own_log(
    shards: list[CdcCase], spark: SparkSession, tmp_path: Path
) -> None:
    first, second = shards
    for each in shards:
        each.capture(["public.orders"], snapshot_mode="no_data")
    loaded = pipeline(tmp_path, shards)
    copies = [
        SnapshotCopy(loaded, loaded.pipeline.file_source(f"snapshot_{number}"), lambda _: None)
        for number in range(2)
    ]
    copies[0].take()
    # What the later snapshot of the other shard would take for contained, the first one lacks.
    first.execute(
        "UPDATE orders SET amount = amount + 7 WHERE id <= 100",
        "DELETE FROM orders WHERE id BETWEEN 110 AND 120",
        "UPDATE orders SET id = id + 8000 WHERE id BETWEEN 130 AND 140",
    )
    second.execute(
        "UPDATE orders SET amount = 1 WHERE id > 500",
        "DELETE FROM orders WHERE id BETWEEN 200 AND 210",
    )
    copies[1].take()
    ledger = run_chain(spark, loaded, is_equal(loaded))
    assert (ledger.decided_by, ledger.rule) == ("offsets", "sequence")

    def meanwhile() -> None:
        second.execute(
            "UPDATE orders SET id = id + 9000 WHERE id BETWEEN 110 AND 120",
            "UPDATE orders SET paid = NOT paid",
        )
        first.execute("DELETE FROM orders WHERE id % 7 = 0", "UPDATE orders SET day = '1999-12-31'")

    run_live(spark, loaded, is_equal(loaded), meanwhile)
    report = audit(loaded)
    assert (wrong(report), report.ok) == ({}, True)
    found = compare_with_source(loaded)
    assert [each.shard for each in found.shards] == [topic_of(each) for each in shards]
    assert found.rows == sum(each.rows for each in found.shards)
    assert found.shards[0].rows < found.shards[1].rows
    rows = DeltaTable(str(tmp_path / "out/orders")).to_pyarrow_table(columns=["_shard", "id"])
    ids = [{r["id"] for r in rows.to_pylist() if r["_shard"] == topic_of(s)} for s in shards]
    assert len(ids[0] & ids[1]) > 300
    # A row that differs is told with its shard.
    second.execute("UPDATE orders SET customer = 'not there yet' WHERE id = 1")
    (one,) = [line for line in compare_with_source(loaded).examples if "not there yet" in line]
    assert one.startswith(f"{topic_of(second)}: only in the source")
    refused = invoke(["repair", str(loaded.path)])
    assert refused.exit_code == 2
    assert "rows of 2 shards" in " ".join(refused.stderr.split())


def test_a_shard_that_lacks_table_or_column_is_told_before_another_one_is_copied(
    shards: list[CdcCase], tmp_path: Path
) -> None:
    for each in shards:
        each.capture(["public.orders"], snapshot_mode="no_data")
    loaded = pipeline(tmp_path, shards)
    shards[1].execute("ALTER TABLE orders ADD note text")
    with pytest.raises(InputError, match="has a column `note`") as caught:
        snapshots.take(loaded, lambda _: None)
    assert caught.value.fields["source"] == "snapshot_1"
    shards[1].execute("ALTER TABLE orders RENAME TO others")
    with pytest.raises(InputError, match=r"public\.orders") as caught:
        snapshots.take(loaded, lambda _: None)
    assert not list(tmp_path.glob("snapshot/**/*.parquet"))
