"""Statistics of a file that is made of others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hybrid_extensions.upkeep.files.statistics import merge_statistics


def merged(kind: Any, *files: tuple[Any, Any, int | None], name: str = "c") -> dict[str, Any]:
    """Statistics of ten rows for each file: lowest and highest value as JSON, and nulls."""
    field = {"name": "c", "type": kind, "metadata": {}}
    if name != "c":
        field["metadata"] = {"delta.columnMapping.physicalName": name}
    texts = []
    for low, high, nulls in files:
        parts = ['"numRecords":10']
        parts += [f'"minValues":{{"{name}":{low}}}'] if low is not None else []
        parts += [f'"maxValues":{{"{name}":{high}}}'] if high is not None else []
        parts += [f'"nullCount":{{"{name}":{nulls}}}'] if nulls is not None else []
        texts.append(f"{{{','.join(parts)}}}")
    found = merge_statistics(texts, [10] * len(files), {"fields": [field]})
    document: dict[str, Any] = json.loads(found, parse_float=str)
    assert document.pop("numRecords") == 10 * len(files)
    return {part: values.get(name) for part, values in document.items()}


@pytest.mark.parametrize(
    ("kind", "first", "second", "lowest", "highest"),
    [
        ("long", ("2", "30"), ("10", "20"), 2, 30),
        ("string", ('"B"', '"a"'), ('"A"', '"é"'), "A", "é"),
        ("date", ('"2024-01-02"',) * 2, ('"2023-12-31"',) * 2, "2023-12-31", "2024-01-02"),
        # The same moment in two zones, and another one between them by its text.
        (
            "timestamp",
            ('"2024-01-01T10:00:00.000+02:00"',) * 2,
            ('"2024-01-01T09:00:00.000Z"',) * 2,
            "2024-01-01T10:00:00.000+02:00",
            "2024-01-01T09:00:00.000Z",
        ),
        (
            "decimal(38,18)",
            ("0.123456789012345678", "0.123456789012345679"),
            ("0.123456789012345677", "0.123456789012345678"),
            "0.123456789012345677",
            "0.123456789012345679",
        ),
        ("double", ("-1.5", "2.5"), ("-0.5", "1e300"), "-1.5", "1E+300"),
    ],
)
def test_the_lowest_and_the_highest_value_as_readers_compare_them(
    kind: str, first: tuple[str, str], second: tuple[str, str], lowest: Any, highest: Any
) -> None:
    found = merged(kind, (*first, 1), (*second, 2))
    assert found == {"minValues": lowest, "maxValues": highest, "nullCount": 3}


def test_what_one_file_does_not_know_is_left_out() -> None:
    nothing = {"minValues": None, "maxValues": None, "nullCount": None}
    assert merged("long", ("1", "2", 0), (None, None, None)) == nothing
    assert merged("long", ("1", "2", 0), ("0", None, 0)) == {
        "minValues": 0,
        "maxValues": None,
        "nullCount": 0,
    }
    assert merged("double", ("1.0", '"NaN"', 0), ("0.5", "1.5", 0))["maxValues"] is None
    # A year of five digits has no order as a text.
    far = ('"+10000-01-01"', '"+10000-01-01"', 0)
    assert merged("date", ('"2024-01-01"', '"2024-01-01"', 0), far)["maxValues"] is None


def test_a_file_of_nulls_alone_says_nothing_and_hides_nothing() -> None:
    found = merged("long", ("1", "2", 0), (None, None, 10))
    assert found == {"minValues": 1, "maxValues": 2, "nullCount": 10}


def test_columns_by_their_names_in_the_files() -> None:
    found = merged("long", ("1", "2", 0), ("0", "1", 0), name="col-1234")
    assert found == {"minValues": 0, "maxValues": 2, "nullCount": 0}


def test_parts_of_a_column() -> None:
    inner = {"type": "struct", "fields": [{"name": "n", "type": "integer", "metadata": {}}]}
    value = ('{"n":5}', '{"n":7}', '{"n":1}')
    text = (
        f'{{"minValues":{{"c":{value[0]}}},"maxValues":{{"c":{value[1]}}},'
        f'"nullCount":{{"c":{value[2]}}},"tightBounds":false}}'
    )
    schema = {"fields": [{"name": "c", "type": inner, "metadata": {}}]}
    assert json.loads(merge_statistics([text, text], [3, 3], schema)) == {
        "numRecords": 6,
        "minValues": {"c": {"n": 5}},
        "maxValues": {"c": {"n": 7}},
        "nullCount": {"c": {"n": 2}},
        "tightBounds": False,
    }
    assert json.loads(merge_statistics([text, None], [3, 3], schema))["minValues"] == {}
