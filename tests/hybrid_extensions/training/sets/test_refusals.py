"""What does not fit a declared training set is refused by name, before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from sources.errors import HybridError, InputError, StateError
from tests.hybrid_extensions.training.sets.set_case import Case


@pytest.fixture
def case(tmp_path: Path) -> Case:
    made = Case(tmp_path)
    made.labels = [(1, "a", 5)]
    made.write_labels()
    made.add()
    return made


@pytest.mark.parametrize(
    ("table", "fields", "told", "hint"),
    [
        (1, {"path": "no"}, "There is no Delta table", "Correct the `path` of `prices`"),
        (1, {"columns": ["cost"]}, "There is no column `cost`", "shop, price, told"),
        (1, {"known_at": "seen"}, "There is no column `seen`", "shop, price, told"),
        (1, {"known_at": "price"}, "`price` of table `prices` of training set `sales` is BIGINT",
         "timestamps"),
        (1, {"key": ["price"]}, "The labels have no column `price`", "Correct `key` of `prices`"),
        (0, {"key": ["n"]}, "The labels have no column `n`", "Correct `key` of `own`"),
        (2, {"valid_to": "rate"}, "`rate` of table `rates` of training set `sales` is BIGINT",
         "timestamps"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused(
    case: Case, table: int, fields: dict[str, Any], told: str, hint: str
) -> None:
    case.tables[table] |= fields
    refused = _refused(case)
    assert told in refused.message
    assert hint in refused.hint


@pytest.mark.parametrize(
    ("labels", "told", "hint"),
    [
        ({"path": "no.parquet"}, "can't be read", "Name Parquet files"),
        ({"time": "seen"}, "There is no column `seen` in the labels", "`labels.time`"),
        ({"key": ["number"]}, "There is no column `number` in the labels", "`labels.key`"),
        ({"time": "y"}, "`y` of the labels", "Name a column with timestamps"),
        ({"start": "2024-01-02"}, "labels.parquet is outside of", "Correct `labels.start`"),
        (
            {"end": "2024-01-01", "start": "2023-01-01"},
            "outside of the declared ranges",
            "`labels.end`",
        ),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    case: Case, labels: dict[str, Any], told: str, hint: str
) -> None:
    usual = {"path": "labels.parquet", "key": ["id"], "time": "asked", "start": "2024-01-01"}
    case.fields["labels"] = {**usual, **labels}
    refused = _refused(case)
    assert told in refused.message
    assert hint in refused.hint


def test_two_labels_of_a_key_and_time_are_refused_before_anything_is_written(case: Case) -> None:
    case.labels = [(1, "a", 5), (2, "a", 40), (2, "b", 40), (2, "b", 50)]
    case.write_labels()
    refused = _refused(case)
    assert "2 labels of " in refused.message
    assert (
        "the same key and time, id=2, asked=2024-01-02 16:00:00+00:00. Nothing" in refused.message
    )
    assert "`labels.key`" in refused.hint
    # Other ranges can be computed.
    assert case.compute(["2024-01-01", "2024-01-03"]).rows == 2


def test_a_label_without_a_time_is_refused(case: Case) -> None:
    rows = pq.read_table(case.folder / "labels.parquet")
    nulls = pa.nulls(1, rows["asked"].type)
    pq.write_table(rows.set_column(2, "asked", nulls), case.folder / "labels.parquet")
    assert "1 label of" in _refused(case).message


def test_a_key_of_another_type_is_refused(case: Case) -> None:
    rows = pq.read_table(case.folder / "labels.parquet")
    pq.write_table(rows.rename_columns(["shop", "id", "asked", "y"]), case.folder / "l.parquet")
    case.fields["labels"] = {"path": "l.parquet", "key": ["id"], "time": "asked",
                             "start": "2024-01-01"}  # fmt: skip
    refused = _refused(case)
    assert "`shop` is BIGINT in the labels and VARCHAR in table `own`" in refused.message
    assert "Cast `shop`" in refused.hint


def test_a_folder_with_another_table_is_refused(case: Case) -> None:
    write_deltalake(case.folder / "sales", pa.table({"x": [1]}))
    assert "has a Delta table that is no training set; its columns are x." in _refused(case).message


def test_what_is_no_range_is_refused(case: Case) -> None:
    with pytest.raises(InputError, match="`2024-01` is no range of label times by day"):
        case.compute(["2024-01"])


def test_a_pipeline_without_a_table_yet_is_named_with_the_way_out(case: Case) -> None:
    (case.folder / "out").rename(case.folder / "elsewhere")
    with pytest.raises(StateError, match="There is no Delta table") as caught:
        case.look()
    assert caught.value.hint == "Run the pipeline first: `hybrid run P`."


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": "t", "columns": ["x"], "path": "a"}, "`key` and `known_at`"),
        ({"name": "t", "columns": ["x"], "path": "a", "pipeline": "b"}, "both `pipeline` and"),
        ({"name": "t", "columns": ["x"], "known_at": "a", "valid_from": "b"}, "both `known_at`"),
        ({"name": "t", "columns": ["x"], "valid_to": "b"}, "`valid_to` needs `valid_from`"),
        ({"name": "t", "columns": ["x", "x"]}, "column `x` is listed twice"),
        ({"name": "own", "columns": ["x"]}, "two tables of the name `own`"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(
    case: Case, fields: dict[str, Any], told: str
) -> None:
    case.tables.append(fields)
    with pytest.raises(InputError, match=told):
        _ = case.loaded


def test_a_set_in_the_folder_of_the_pipelines_table_is_refused(case: Case) -> None:
    case.fields["path"] = "out"
    with pytest.raises(InputError, match="`path` is that of the pipeline's table"):
        _ = case.loaded


def _refused(case: Case) -> HybridError:
    before = sorted(case.folder.rglob("*.parquet"))
    with pytest.raises(InputError) as caught:
        case.compute()
    assert sorted(case.folder.rglob("*.parquet")) == before
    return caught.value
