"""Training sets in Dagster: partitions of label times, and checks of what was computed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import dagster as dg
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.training.dagster import FUTURE, NULLS, ROWS, definitions
from hybrid_extensions.training.sets.quality import quality
from hybrid_extensions.training.sets.range_states import set_of
from orchestration.pipeline_definitions import pipeline_definitions
from tests.hybrid_extensions.training.sets.set_case import Case

KEY = dg.AssetKey(["orders", "training", "sales"])


@pytest.fixture
def case(tmp_path: Path) -> Case:
    made = Case(tmp_path, max_nulls=0.5)
    made.labels = [(1, "a", 5), (2, "a", 30), (3, "b", 54)]
    made.write_labels()
    made.add(own=[("a", 0, 7, 2)], prices=[("a", 3, 1)], rates=[("a", 1, 0, None)])
    return made


def materialize(case: Case, first: str, last: str) -> dg.ExecuteInProcessResult:
    (asset,) = definitions(case.loaded).assets or []
    assert isinstance(asset, dg.AssetsDefinition)
    tags = {
        "dagster/asset_partition_range_start": first,
        "dagster/asset_partition_range_end": last,
    }
    return dg.materialize([asset], tags=tags, raise_on_error=False)


def test_a_set_is_downstream_of_its_tables_with_a_partition_for_each_day(case: Case) -> None:
    node = pipeline_definitions(case.loaded).resolve_asset_graph().get(KEY)
    assert node.parent_keys == {
        dg.AssetKey(["orders", "table"]),
        dg.AssetKey(["prices"]),
        dg.AssetKey(["rates"]),
    }
    assert node.partitions_def is not None
    assert node.partitions_def.get_first_partition_key() == "2024-01-01"
    assert {each.name for each in node.check_keys} == {ROWS, NULLS, FUTURE}


def test_partitions_are_computed_and_checked(case: Case) -> None:
    done = materialize(case, "2024-01-01", "2024-01-02")
    assert done.success
    assert case.rows() == case.expected()[:2]
    (event,) = done.asset_materializations_for_node("orders__training__sales")[:1]
    assert event.metadata["computed labels"].value == 2
    passed = {each.check_name: each.passed for each in done.get_asset_check_evaluations()}
    assert passed == {ROWS: True, NULLS: True, FUTURE: True}
    # Of shop b nothing is known.
    done = materialize(case, "2024-01-01", "2024-01-03")
    assert case.rows() == case.expected()
    done = materialize(case, "2024-01-03", "2024-01-03")
    checks = {each.check_name: each for each in done.get_asset_check_evaluations()}
    assert {name: each.passed for name, each in checks.items()} == {
        ROWS: True,
        NULLS: False,
        FUTURE: True,
    }
    assert "`own__n`, `prices__price`, `rates__rate`" in str(checks[NULLS].description)


def test_what_is_refused_is_shown_with_the_way_out(case: Case) -> None:
    case.labels.append((1, "b", 5))
    case.write_labels()
    done = materialize(case, "2024-01-01", "2024-01-01")
    (failed,) = [each for each in done.all_events if each.is_step_failure]
    text = str(failed.step_failure_data.user_failure_data)
    assert "have the same key and time" in text
    assert "`labels.key`" in text


def test_rows_that_are_missing_or_from_the_future_are_counted(case: Case) -> None:
    case.compute()
    rows = DeltaTable(case.folder / "sales").to_pyarrow_table().sort_by("id").slice(0, 2)
    later = pc.add(rows["asked"], timedelta(seconds=1))
    rows = rows.set_column(rows.column_names.index("own__known_at"), "own__known_at", later)
    write_deltalake(case.folder / "sales", rows, mode="overwrite", partition_by=["label_range"])
    loaded = case.loaded
    days = ["2024-01-01", "2024-01-02", "2024-01-03"]
    found = quality(loaded, set_of(loaded, "sales"), days)
    assert (found.labels, found.rows, found.from_the_future) == (3, 2, {"own": 2})
