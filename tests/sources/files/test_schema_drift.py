"""Parquet files whose columns differ: what is read as one, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from sources.common.schema import names_and_types, parse_type, type_name
from sources.common.widening import is_wider, widest
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.columns.drifted_layouts import ColumnDifference
from sources.files.columns.schema_drift import default_of
from sources.files.listing.source_listing import list_splits
from sources.files.listing.split_table import FileListing, with_later_columns
from sources.storage.listing import find_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp() * 1_000_000)
STORES = Stores(S3Settings())


def source(**fields: Any) -> FileSource:
    declared = {"type": "files", "name": "history", "path": "*.parquet", "format": "parquet"}
    return FileSource.model_validate({**declared, "schema_drift": {}, **fields})


def listing(folder: Path, planned: pa.Schema | None = None, **fields: Any) -> FileListing:
    declared = source(**fields)
    files = find_files(declared.name, declared.patterns, folder, STORES)
    return list_splits(declared, "at", files, STORES, planned=planned)


def write(folder: Path, name: str, minute: int, event: str = "at", **columns: Any) -> None:
    at = pa.array([NOON + timedelta(minutes=minute)], pa.timestamp("us", "UTC"))
    values = {key: pa.array([value], kind) for key, (value, kind) in columns.items()}
    pq.write_table(pa.table({**values, event: at}), folder / f"{name}.parquet")


def refusal(folder: Path, planned: pa.Schema | None = None, **fields: Any) -> str:
    with pytest.raises(InputError) as caught:
        listing(folder, planned, **fields)
    return str(caught.value)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Three kinds of files, as months of one archive have them."""
    write(tmp_path, "a", 0, event="time", cust=(1, pa.int32()), v=(0.5, pa.float32()))
    write(tmp_path, "b", 1, customer=(2, pa.int64()), v=(0.5, pa.float64()))
    price = (Decimal("1.25"), pa.decimal128(9, 2))
    write(tmp_path, "c", 2, v=(0.5, pa.float64()), price=price, customer=(3, pa.int64()))
    return tmp_path


RENAMED = {"renamed": {"cust": "customer", "time": "at"}}


def test_files_are_read_as_the_columns_that_hold_all_of_them(archive: Path) -> None:
    drift = {**RENAMED, "defaults": {"price": "0.00"}}
    found = listing(archive, schema_drift=drift)
    assert names_and_types(found.read) == {
        "customer": "bigint",
        "v": "double",
        "at": "timestamp",
        "price": "decimal(9,2)",
    }
    minutes = [(at - NOON_US) // 60_000_000 for at in found.splits["event_min_us"].to_pylist()]
    assert minutes == [0, 1, 2]
    assert found.splits["layout"].to_pylist() == [0, 1, 2]
    gone = ColumnDifference(column="price", missing=True, default="0.00")
    old = [
        ColumnDifference(column="customer", type="int", name="cust"),
        ColumnDifference(column="v", type="float"),
        ColumnDifference(column="at", name="time"),
    ]
    assert [layout.differences for layout in found.layouts] == [[*old, gone], [gone], []]
    assert [layout.shown_files for layout in found.layouts] == [
        [str(archive / f"{name}.parquet")] for name in "abc"
    ]
    assert found.warnings == []


def test_splits_of_older_plans_have_no_layout(archive: Path) -> None:
    splits = listing(archive, schema_drift=RENAMED).splits
    older = with_later_columns(splits.drop_columns(["layout"]))
    assert older.schema == splits.schema
    assert older["layout"].null_count == 3


def test_layouts_count_the_files_that_are_read(archive: Path) -> None:
    since = {"since": (NOON + timedelta(minutes=1)).isoformat()}
    found = listing(archive, schema_drift=RENAMED, time_range=since)
    assert [layout.files for layout in found.layouts] == [0, 1, 1]


def test_declared_columns_are_what_files_are_read_as(archive: Path) -> None:
    wide = {"customer": "bigint", "at": "timestamp", "price": "decimal(12,4)", "note": "string"}
    found = listing(archive, schema_drift=RENAMED, schema=wide)
    assert names_and_types(found.read) == wide
    assert [of.column for of in found.layouts[2].differences] == ["price", "note"]
    assert found.warnings == [
        "Source `history`: no file has the column `note`, which `schema` declares; it is null in "
        "every row."
    ]


def test_without_the_declaration_files_that_differ_are_refused(archive: Path) -> None:
    (archive / "a.parquet").unlink()
    assert "declare `schema_drift: {}`" in refusal(archive, schema_drift=None)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("int", "bigint", "bigint"),
        ("tinyint", "smallint", "smallint"),
        ("float", "double", "double"),
        ("decimal(9,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("decimal(38,0)", "decimal(38,1)", None),
        ("bigint", "double", None),
        ("bigint", "string", None),
        ("date", "timestamp", None),
        ("array<int>", "array<bigint>", None),
    ],
)
def test_a_common_type_loses_nothing(one: str, other: str, both: str | None) -> None:
    left, right = parse_type(one), parse_type(other)
    for pair in ((left, right), (right, left)):
        found = widest(*pair)
        assert (None if found is None else type_name(found)) == both
    if found is not None:
        assert is_wider(left, found)
        assert is_wider(right, found)


def test_what_would_lose_information_is_refused_with_the_files(tmp_path: Path) -> None:
    for name, kind in (("a", pa.int64()), ("b", pa.int64()), ("c", pa.string())):
        value = "7" if kind == pa.string() else 7
        write(tmp_path, name, 0, v=(value, kind))
    told = refusal(tmp_path)
    assert "column `v` can't be read as one type without a loss of information" in told
    assert f"bigint in 2 files, such as {tmp_path}/a.parquet" in told
    assert f"string in 1 file, such as {tmp_path}/c.parquet" in told
    assert "None of these types holds the values of the others" in told
    (tmp_path / "c.parquet").unlink()
    narrow = refusal(tmp_path, schema={"v": "int", "at": "timestamp"})
    assert "column `v` can't be read as int, its type in `schema`," in narrow
    assert "Declare `v: bigint` in the source's `schema`, which holds the values of all" in narrow


def test_names_that_can_not_be_told_apart_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a", 0, v=(1, pa.int32()), V=(1, pa.int32()))
    assert "columns `v` and `V` differ only in upper" in refusal(tmp_path)
    both = refusal(tmp_path, schema_drift={"renamed": {"V": "v"}})
    assert f"{tmp_path}/a.parquet has both `v` and `V`" in both
    alone = {"schema_drift": None}
    assert "columns `v` and `V` differ only in upper" in refusal(tmp_path, **alone)
    # Spark's reader finds both, whichever is declared.
    assert "`V`, whose name differs only in" in refusal(
        tmp_path, schema={"at": "timestamp", "v": "int"}
    )


def test_names_that_differ_in_case_between_files_are_read_as_renamed(tmp_path: Path) -> None:
    write(tmp_path, "a", 0, v=(1, pa.int32()))
    write(tmp_path, "b", 1, V=(2, pa.int32()))
    assert "`schema_drift: {renamed: {V: v}}`" in refusal(tmp_path)
    assert listing(tmp_path, schema_drift={"renamed": {"V": "v"}}).read.names == ["v", "at"]


@pytest.mark.parametrize("part", ["renamed", "defaults"])
def test_a_declared_name_that_no_column_has_is_refused(archive: Path, part: str) -> None:
    misspelled = {"renamed": {**RENAMED["renamed"]}, "defaults": {}}
    misspelled[part] |= {"cusd": "custmer"} if part == "renamed" else {"custmer": "1"}
    told = refusal(archive, schema_drift=misspelled)
    assert f"`schema_drift.{part}` names `custmer`, which is no column of the source" in told
    assert "customer, v, at, price" in told


def test_a_file_without_the_event_time_is_refused(archive: Path) -> None:
    told = refusal(archive, schema_drift={"renamed": {"cust": "customer"}})
    assert f"`event_time: at` is not in {archive}/a.parquet" in told
    told = refusal(archive, select={"at": "timestamp_millis(ms)", "v": "v"})
    assert f"`event_time: ms` is not in {archive}/a.parquet" in told


def test_files_that_arrive_later_are_read_as_planned(archive: Path, tmp_path: Path) -> None:
    planned = pa.schema(
        [("customer", pa.int64()), ("v", pa.float64()), ("at", pa.timestamp("us", "UTC"))]
    )
    (archive / "c.parquet").unlink()
    found = listing(archive, planned, schema_drift=RENAMED)
    assert found.read == planned
    write(tmp_path, "d", 3, v=(0.5, pa.float64()), new=(1, pa.int32()))
    told = refusal(archive, planned, schema_drift=RENAMED)
    assert (
        f"{tmp_path}/d.parquet, which arrived after the plan was made, has a column `new`" in told
    )
    write(tmp_path, "d", 3, customer=(Decimal(1), pa.decimal128(20, 0)))
    told = refusal(archive, planned, schema_drift=RENAMED)
    assert "column `customer` can't be read as bigint, its type in the plan," in told
    assert "None of these types holds the values of the others" in told
    (tmp_path / "d.parquet").unlink()
    narrow = planned.set(0, pa.field("customer", pa.int32()))
    told = refusal(archive, narrow, schema_drift=RENAMED)
    assert "Declare `customer: bigint` in the source's `schema`, next to all other columns" in told
    assert "and begin a new generation: `hybrid generation new P`" in told


@pytest.mark.parametrize(
    ("declared", "kind", "value"),
    [
        ("EUR", "string", "EUR"),
        ("", "string", ""),
        (3, "bigint", 3),
        (3, "double", 3.0),
        ("1.5", "decimal(9,2)", Decimal("1.50")),
        (True, "boolean", True),
        ("2024-01-01", "date", date(2024, 1, 1)),
        ("2024-01-01T00:00:00+00:00", "timestamp", datetime(2024, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_default_is_a_value_of_its_columns_type(declared: Any, kind: str, value: Any) -> None:
    drift = source(schema_drift={"defaults": {"c": declared}}).schema_drift
    assert drift is not None
    assert default_of(drift, "c", parse_type(kind)) == value


def test_a_default_of_another_type_is_refused(archive: Path) -> None:
    told = refusal(archive, schema_drift={**RENAMED, "defaults": {"price": "cheap"}})
    assert "`schema_drift.defaults.price: cheap` is not a valid decimal(9,2)" in told


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"format": "text"}, "`schema_drift` has no meaning with `format: text`"),
        (
            {
                "schema_drift": {"renamed": {"o": "offset"}},
                "offsets": {"partition": "part", "offset": "offset"},
            },
            "column `offset` is in `offsets` and in `schema_drift`",
        ),
        ({"schema_drift": {"renamed": {"a": "b", "b": "c"}}}, "`a: c`"),
        (
            {"schema_drift": {"renamed": {"a": "b"}, "defaults": {"a": 1}}},
            "Write the default for `b`",
        ),
    ],
)
def test_a_declaration_that_means_nothing_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        source(**fields)
    assert told in str(caught.value)


@pytest.mark.parametrize("drift", [{}, {"schema_drift": None}])
def test_a_name_that_differs_in_case_from_a_declared_one_is_refused(
    tmp_path: Path, drift: dict[str, Any]
) -> None:
    write(tmp_path, "a", 0, X=(1, pa.int64()))
    declared = {"at": "timestamp", "x": "bigint"}
    with pytest.raises(InputError, match="X") as told:
        listing(tmp_path, schema=declared, **drift)
    assert "schema_drift: {renamed: {X: x}}" in told.value.hint
    found = listing(tmp_path, schema=declared, schema_drift={"renamed": {"X": "x"}})
    assert found.layouts[0].differences == [ColumnDifference(column="x", name="X")]


def test_a_column_without_any_value_has_the_type_of_others_and_a_nan_is_a_value(
    tmp_path: Path,
) -> None:
    write(tmp_path, "a", 0, v=(None, pa.float64()))
    write(tmp_path, "b", 1, v=("t", pa.string()))
    found = listing(tmp_path)
    assert names_and_types(found.read)["v"] == "string"
    assert found.parsed == f"{tmp_path}/a.parquet"
    assert found.layouts[0].differences == [ColumnDifference(column="v", type="void")]
    planned = pa.schema([("v", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    assert listing(tmp_path, planned).read == planned
    write(tmp_path, "c", 2, v=(float("nan"), pa.float64()))
    assert "double in 1 file, such as " in refusal(tmp_path)
    assert "void in 1 file" in refusal(tmp_path)
