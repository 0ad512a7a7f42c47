"""A guess before the first run follows the amount, the cores and the declared limits."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.estimates.benchmarked_speeds import FILE_SPEEDS
from hybrid_extensions.estimates.estimate import guess
from sources.config.source.file_source import FileSource
from tests.orchestration.progress.plan_case import (
    COLUMNS,
    HISTORY,
    KAFKA,
    LIVE,
    files,
    pipeline,
    plan,
    topic,
)

UPSERT = {"path": "out", "mode": "merge"}
MANY = 100_000_000


def guessed(
    bytes_: int = 0, rows: int | None = None, batches: int = 0, *, limit: Any = None, **fields: Any
) -> float:
    """The guess for history in files of this size."""
    form = fields.pop("format", "parquet")
    schema = {"schema": COLUMNS} if form in ("json", "csv") else {}
    history = {**HISTORY, **schema, "format": form, "rate": limit or {}}
    declared = pipeline(history, LIVE, **fields)
    made = plan(files(bytes=bytes_, rows=rows, format=form), topic())
    return guess(declared, made, declared.source("history"), batches)


def of_topic(reading: int, **fields: Any) -> float:
    archive = {**KAFKA, "name": "archive", "until": "latest", "start": "earliest", **fields}
    declared = pipeline(archive, LIVE)
    made = plan(topic("none", "fixed", None, source="archive", reading=reading), topic())
    return guess(declared, made, declared.source("archive"), 0)


@given(st.integers(0, 10**12), st.integers(0, 10**10), st.integers(0, 1000))
def test_more_to_read_never_takes_less(bytes_: int, rows: int, batches: int) -> None:
    found = guessed(bytes_, rows, batches)
    assert found <= guessed(bytes_ * 2, rows, batches)
    assert found <= guessed(bytes_, rows * 2, batches)
    assert found < guessed(bytes_, rows, batches + 1)


def test_an_estimate_assumes_half_of_the_measured_speed_on_the_available_cores() -> None:
    assert guessed(rows=78_000_000) == 100
    assert guessed(rows=78_000_000, spark={"master": "local[8]"}) == 25


def test_rows_that_are_not_counted_are_guessed_from_the_bytes() -> None:
    known = guessed(7_800_000_000, MANY, format="json")
    assert guessed(7_800_000_000, format="json") == pytest.approx(known)


def test_wide_rows_take_longer() -> None:
    assert guessed(2_500 * 10**6, 10**6) == guessed(0, MANY)


def test_a_merge_by_a_key_of_the_input_is_slow_and_one_of_computed_rows_is_not() -> None:
    appended = guessed(rows=MANY)
    assert guessed(rows=MANY, sink={**UPSERT, "key": ["id"]}) > 10 * appended
    assert guessed(rows=MANY, sink={**UPSERT, "key": ["window_start"]}) == appended


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [({"bytes": 1000}, 4000), ({"files": 1}, 273), ({"rows": 100}, 70), ({"rows": MANY}, 1)],
)
def test_a_declared_limit_is_kept(limit: Any, seconds: float) -> None:
    assert guessed(4_000_000, 7_000, 1, limit=limit) == pytest.approx(seconds, rel=0.5)


def test_a_topic_is_read_by_as_many_tasks_as_it_has_partitions() -> None:
    # One partition, two cores.
    assert of_topic(1_800_000) == 11
    assert of_topic(1_800_000, rate={"offsets": 1000}) == 1_800


def test_every_format_of_files_has_a_speed() -> None:
    of_files = set(get_args(FileSource.model_fields["format"].annotation))
    assert of_files == set(FILE_SPEEDS)
