"""Values that JSON has no usual form for, in the forms that sinks get."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.feeds.base import Form
from hybrid_extensions.feeds.rows import all_rows
from sources.errors import InputError

NAN, INFINITY = float("nan"), float("inf")


def delivered(folder: Path, column: pa.Array, form: Form) -> list[dict[str, Any]]:
    """What a sink gets of a table with the column ``v``."""
    rows = pa.table({"id": pa.array(range(len(column)), pa.int64()), "v": column})
    write_deltalake(folder, rows)
    with all_rows(DeltaTable(folder), ["id"], rows.schema) as found:
        read: list[dict[str, Any]] = found.read(form).read_all().to_pylist()
        return read


def strictly(text: str) -> Any:
    """Read JSON as others than Python do: without numbers that are not finite, digit by digit."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse, parse_float=Decimal)


@pytest.mark.parametrize(
    ("column", "right"),
    [
        (pa.array([NAN, INFINITY, -INFINITY]), ["NaN", "Infinity", "-Infinity"]),
        (pa.array([1.5, None]), [1.5, None]),
        (pa.array([NAN, None], pa.float32()), ["NaN", None]),
        (pa.array([[NAN, None, 2.5], [], None]), [["NaN", None, 2.5], [], None]),
        (pa.array([{"x y": INFINITY}, None]), [{"x y": "Infinity"}, None]),
        (
            pa.array([[("b", NAN), ("a", None)], []], pa.map_(pa.string(), pa.float64())),
            [{"a": None, "b": "NaN"}, {}],
        ),
        (
            pa.array([Decimal("-0.25"), Decimal("0.10"), None], pa.decimal128(2, 2)),
            [Decimal("-0.25"), Decimal("0.1"), None],
        ),
        (pa.array([[Decimal("0.5")]], pa.list_(pa.decimal128(1, 1))), [[Decimal("0.5")]]),
        # No wider decimal has room for a digit before the point.
        (pa.array([Decimal(f"0.{'9' * 38}")], pa.decimal128(38, 38)), [f".{'9' * 38}"]),
        (pa.array([Decimal("9" * 38)], pa.decimal128(38, 0)), [int("9" * 38)]),
        (pa.array([date(1, 1, 1), None]), ["0001-01-01", None]),
        (pa.array([-719528, 2932897], pa.int32()).cast(pa.date32()), ["0000-01-01", "10000-01-01"]),
    ],
)  # fmt: skip
def test_rows_are_json_that_every_reader_takes_without_loss(
    tmp_path: Path, column: pa.Array, right: list[Any]
) -> None:
    found = delivered(tmp_path / "t", column, "json")
    assert [strictly(each["row"])["v"] for each in found] == right


def test_nested_values_are_such_json_in_the_other_forms_too(tmp_path: Path) -> None:
    column = pa.array([[NAN, None]])
    (text,) = delivered(tmp_path / "text", column, "text")
    assert text["v"] == '["NaN",null]'
    (fields,) = delivered(tmp_path / "fields", column, "fields")
    assert strictly(fields["fields"]) == ["id", "0", "v", '["NaN",null]']


def test_a_map_with_a_key_twice_is_refused_and_the_other_columns_are_delivered(
    tmp_path: Path,
) -> None:
    maps = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32()))
    rows = pa.table({"id": pa.array([7]), "m": maps})
    write_deltalake(tmp_path / "t", rows)
    table = DeltaTable(tmp_path / "t")
    with (
        pytest.raises(InputError, match="a map has a key twice") as refused,
        all_rows(table, ["id"], rows.schema),
    ):
        pass
    assert refused.value.hint == "Name the columns that the feed gets in `columns`, without m."
    with all_rows(table, ["id"], rows.select(["id"]).schema) as found:
        assert found.read("arrow").read_all()["id"].to_pylist() == [7]
