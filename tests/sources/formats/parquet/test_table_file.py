"""Statistics of Parquet files as the log of a Delta table has them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from sources.common.schema import TIMESTAMP
from sources.formats.parquet.table_file import statistics

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def footer(folder: Path, columns: dict[str, pa.Array], **options: Any) -> pq.FileMetaData:
    """The footer of a file with these columns."""
    pq.write_table(pa.table(columns), folder / "a.parquet", **options)
    return pq.read_metadata(folder / "a.parquet")


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.dates(),
            st.none() | st.datetimes(timezones=st.just(UTC)),
            st.none() | st.text(max_size=3),
        ),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, 4),
)
def test_no_filter_by_the_statistics_of_a_copied_file_skips_a_row(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]], group: int
) -> None:
    folder = tmp_path_factory.mktemp("copied")
    kinds = {"id": pa.int64(), "day": pa.date32(), "at": TIMESTAMP, "s": pa.string()}
    values = zip(*rows, strict=True)
    columns = {
        name: pa.array(each, kind) for (name, kind), each in zip(kinds.items(), values, strict=True)
    }
    found = footer(folder, columns, row_group_size=group)
    made = json.loads(statistics(found, pa.schema(kinds), list(kinds)))
    assert made["numRecords"] == len(rows)
    for name, array in columns.items():
        if name in made["nullCount"]:
            assert made["nullCount"][name] == array.null_count
        known = [each for each in array.to_pylist() if each is not None]
        if name not in made["minValues"]:
            continue
        low, high = made["minValues"][name], made["maxValues"][name]
        if name == "id":
            assert (low, high) == (min(known), max(known))
        elif name == "day":
            assert (low, high) == (min(known).isoformat(), max(known).isoformat())
        else:
            # What a reader skips by is up to a millisecond higher than this.
            assert low == f"{_cut(min(known))}Z"
            assert high == f"{_cut(max(known))}Z"


def _cut(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds")


def test_a_time_that_no_date_can_hold_has_no_statistics(tmp_path: Path) -> None:
    found = footer(tmp_path, {"at": pa.array([0, 2**63 - 1]).cast(TIMESTAMP)})
    made = json.loads(statistics(found, pa.schema([("at", TIMESTAMP)]), ["at"]))
    assert made == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"at": 0}}


def test_statistics_are_those_that_delta_s_own_writer_makes(tmp_path: Path) -> None:
    columns = {
        "id": pa.array([3, None, 5]),
        "at": pa.array([NOON, NOON.replace(microsecond=999), None], TIMESTAMP),
        "day": pa.array([None, date(1960, 2, 29), date(2024, 1, 1)]),
    }
    write_deltalake(str(tmp_path / "table"), pa.table(columns))
    (own,) = pa.table(DeltaTable(str(tmp_path / "table")).get_add_actions()).to_pylist()
    found = footer(tmp_path, columns)
    made = json.loads(statistics(found, pa.table(columns).schema, ["id", "at", "day"]))
    assert made["nullCount"] == own["null_count"]
    assert made["minValues"]["id"] == own["min"]["id"]
    assert made["maxValues"]["day"] == own["max"]["day"].isoformat()
