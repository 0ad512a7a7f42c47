"""Micro-batches of several inputs' files in one order of event time."""

from __future__ import annotations

import pyarrow as pa

from sources.config.source.file_source import FileSource
from sources.planning.files.aligned_batches import TICK, ends_by_tick, with_ticks


def source(name: str) -> FileSource:
    return FileSource.model_validate(
        {
            "name": name,
            "type": "files",
            "format": "parquet",
            "path": f"{name}/*",
            "batch": {"files": 1},
        }
    )


def splits(*times: tuple[int | None, int | None]) -> pa.Table:
    lows, highs = zip(*times, strict=True) if times else ((), ())
    return pa.table(
        {
            "length": pa.array([1] * len(times), pa.int64()),
            "event_min_us": pa.array(lows, pa.int64()),
            "event_max_us": pa.array(highs, pa.int64()),
        }
    )


def ticks(**inputs: pa.Table) -> dict[str, list[int]]:
    found = with_ticks(inputs, {name: source(name) for name in inputs})
    return {name: table[TICK].to_pylist() for name, table in found.items()}


def test_what_happened_at_one_time_is_read_in_one_micro_batch() -> None:
    orders, users = splits((0, 9), (10, 19), (20, 29)), splits((0, 8), (12, 18), (21, 30))
    assert ticks(orders=orders, users=users) == {"orders": [0, 1, 2], "users": [0, 1, 2]}


def test_an_input_without_rows_at_a_time_has_nothing_in_that_micro_batch() -> None:
    orders, users = splits((0, 9), (10, 19), (20, 29)), splits((25, 28), (40, 50))
    assert ticks(orders=orders, users=users) == {"orders": [0, 1, 2], "users": [2, 3]}


def test_many_small_batches_of_one_input_wait_for_none_of_the_other() -> None:
    orders, users = splits((0, 1), (2, 3), (4, 5), (6, 7)), splits((0, 7))
    assert ticks(orders=orders, users=users) == {"orders": [0, 1, 2, 3], "users": [0]}


def test_batches_of_unknown_times_are_read_at_once_and_inputs_may_have_none() -> None:
    orders = splits((None, None), (3, 4))
    assert ticks(orders=orders, users=splits()) == {"orders": [0, 1], "users": []}


def test_micro_batches_end_where_their_ticks_do_with_empty_ones_between() -> None:
    orders, users = splits((0, 9), (10, 19), (30, 39)), splits((20, 25), (26, 28))
    found = with_ticks({"o": orders, "u": users}, {name: source(name) for name in "ou"})
    assert list(ends_by_tick(found["o"])) == [1, 2, 2, 2, 3]
    assert list(ends_by_tick(found["u"])) == [0, 0, 1, 2]
    assert list(ends_by_tick(splits().append_column(TICK, pa.array([], pa.int64())))) == []
