"""Of several changes of a key in one micro-batch, the one with the highest sequence is merged."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from hybrid_extensions.ordered_changes.spark.small_changes import last_of_each_key
from sources.config.table.sink import Sink


def sink_of(*key: str, sequence: list[str]) -> Sink:
    return Sink.model_validate(
        {"path": "out", "mode": "merge", "key": list(key), "sequence": sequence}
    )


def as_spark_compares(row: dict[str, Any], sink: Sink) -> list[tuple[bool, Any]]:
    """What a row is ordered by: field by field, and null before every value."""
    return [(row[name] is not None, row[name]) for name in sink.order]


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_one_that_a_loop_over_all_rows_finds(seed: int) -> None:
    chance = random.Random(seed)
    sink = sink_of("a.b", "k", sequence=["seq", "part"])
    rows = [
        {
            "a.b": chance.choice(["", "x", "ä"]),
            "k": chance.randrange(3),
            "seq": None if chance.random() < 0.2 else f"{chance.randrange(4):02}",
            "part": None if chance.random() < 0.2 else chance.randrange(-2, 2),
            "arrival": number,
        }
        for number in range(chance.choice([0, 1, 2, 60]))
    ]
    kinds = {"a.b": pa.string(), "k": pa.int64(), "seq": pa.string(), "part": pa.int32()}
    schema = pa.schema([*kinds.items(), ("arrival", pa.int64())])
    last: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = (row["a.b"], row["k"])
        # Of equal ones the last.
        if key not in last or not (
            as_spark_compares(row, sink) < as_spark_compares(last[key], sink)
        ):
            last[key] = row
    found = last_of_each_key(pa.Table.from_pylist(rows, schema), sink).to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, last.values()))
