"""`make demo-features`: all that is made of three inputs is what DuckDB makes of them."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import duckdb
import pyarrow as pa
import pytest

pytest.importorskip("hybrid_extensions.feeds", reason="it serves the table by a feed")

from examples.demo import Stages
from examples.order_features import demo, proof
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from orchestration.definitions import find_definitions


def test_the_first_table_is_upstream_of_the_second_one_and_both_of_the_training_set() -> None:
    graph = find_definitions([demo.PIPELINES]).resolve_asset_graph()
    first, second = (dg.AssetKey([name, "table"]) for name in ("order_features", "user_features"))
    made = dg.AssetKey(["user_features", "training", "returns"])
    assert graph.get(made).parent_keys == {first, second}
    (plan, read) = (dg.AssetKey(["user_features", step]) for step in ("plan", "orders"))
    assert first in graph.get(plan).parent_keys | graph.get(read).parent_keys
    topics = {dg.AssetKey(["kafka", name]) for name in ("orders", "users", "rates")}
    assert topics <= graph.get_ancestor_asset_keys(first)


def test_the_proof_counts_rows_that_lack_differ_or_are_too_many() -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        at = "TIMESTAMPTZ '2024-03-01 {}:00:00Z' AS \"at\""
        for name, row in {
            "orders": f"n AS order_id, 1 AS user_id, 'USD' AS currency, 300 AS amount, {at}",
            "users": f"1 AS user_id, 'gold' AS tier, 'DE' AS country, {at}",
            "rates": f"'USD' AS currency, 900000 AS rate, {at}",
        }.items():
            hour = "00" if name == "users" else "07"
            rows = "range(3) AS numbers(n)" if name == "orders" else "(SELECT 1)"
            connection.execute(f"CREATE TABLE {name} AS SELECT {row.format(hour)} FROM {rows}")
        query = proof.EXPECTED["order_features"]
        found = connection.sql(query).to_arrow_table()
        assert found["euro_cents"].to_pylist() == [270] * 3
        for given, equal, superfluous, share in (
            (found, 3, 0, "100 %"),
            (found.slice(1), 2, 0, "66.66 %"),
            (pa.concat_tables([found, found.slice(2)]), 3, 1, "100 %"),
        ):
            connection.execute("DROP TABLE IF EXISTS expected_order_features")
            compared = proof.compared(connection, "order_features", given)
            told = (compared.equal, compared.superfluous, compared.share)
            assert told == (equal, superfluous, share)
            assert compared.ok is (given is found)


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("has_kills", [False, True], ids=["undisturbed", "killed drivers"])
def test_all_that_is_made_of_three_inputs_is_what_the_raw_input_makes_it(
    has_kills: bool,
    tmp_path: Path,
    servers: str,
    postgres: LocalPostgres,
    serving_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in {
        "KAFKA_BOOTSTRAP_SERVERS": servers,
        "SERVING_DSN": serving_dsn,
        "SERVING_PASSWORD": postgres.password,
        "ORDERS_TOPICS": f"{uuid.uuid4().hex[:8]}-",
        # Set by the demo, and restored after the test.
        "ORDERS_DATA": "",
        "ORDERS_OUT": "",
        "DAGSTER_HOME": "",
        "HYBRID_PIPELINES": "",
    }.items():
        monkeypatch.setenv(variable, value)
    stages = Stages()
    with ExitStack() as cleanup:
        demo.make_features(tmp_path, stages, cleanup, has_kills=has_kills)
    compared = demo.compare(tmp_path, stages)
    assert [each.share for each in compared] == ["100 %"] * 4
    assert demo.conclusion(compared) == 0
