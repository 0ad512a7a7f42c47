"""The rates of a micro-batch, also where tasks have read the records and Spark has seen none."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sources.common.positions import TopicPartition
from sources.storage.folder import Folder
from spark_jobs.inside.driver.reports.measurement import Measurement
from spark_jobs.inside.query.places.place import Reached
from spark_jobs.inside.query.query_sources import QueryDeclaration
from spark_jobs.run_state.heartbeat import Heartbeat


def measurement(starts: dict[TopicPartition, int] | None) -> Measurement:
    """Of a query whose second source is read."""
    declared = SimpleNamespace(read_places={1: SimpleNamespace(starts=starts)}, beside={})
    return Measurement(cast("QueryDeclaration", declared), 0)


def report(rows: int, before: dict[str, int] | None, after: dict[str, int]) -> Any:
    """Spark's report of a micro-batch of half a second."""
    start = None if before is None else json.dumps({"events": before})
    topic = SimpleNamespace(startOffset=start, endOffset=json.dumps({"events": after}))
    return SimpleNamespace(
        numInputRows=rows,
        processedRowsPerSecond=rows / 0.5,
        inputRowsPerSecond=float("nan") if before is None else rows / 1,
        batchDuration=500,
        sources=[None, topic],
    )


STARTS = {TopicPartition("events", 0): 0, TopicPartition("events", 1): 0}


@pytest.mark.parametrize(
    ("rows", "before", "expected"),
    [
        pytest.param(300, {"0": 0, "1": 0}, (600, 300), id="as Spark has counted them"),
        pytest.param(0, {"0": 100, "1": 150}, (100, None), id="by offsets"),
        pytest.param(0, None, (600, None), id="in the first micro-batch from the start offsets on"),
        pytest.param(0, {"0": 100, "1": 200}, (0, 0), id="of which there are none"),
    ],
)
def test_the_rate_is_that_of_rows_or_of_offsets(
    rows: int, before: dict[str, int] | None, expected: tuple[float, float | None]
) -> None:
    found = measurement(STARTS).rates(report(rows, before, {"0": 100, "1": 200}))
    assert (found["rows_per_s"], found["input_rows_per_s"]) == expected


def test_what_has_no_offsets_has_the_rates_of_spark() -> None:
    found = measurement(None).rates(report(0, {"0": 0}, {"0": 100}))
    assert found == {"rows_per_s": 0, "input_rows_per_s": 0}


@pytest.mark.parametrize(
    ("is_bounded", "rows", "expected"),
    [
        pytest.param(True, None, None, id="unknown where nobody counted them"),
        pytest.param(True, 9_000, 8_000, id="by the plan"),
        pytest.param(False, None, 70, id="as Spark has counted, of a folder that is followed"),
    ],
)
def test_the_rate_of_files_counts_rows_and_not_splits(
    tmp_path: Path, *, is_bounded: bool, rows: int | None, expected: float | None
) -> None:
    """Spark counts each of 35 splits as a row where tasks parse the files."""
    declared = SimpleNamespace(
        is_bounded=is_bounded,
        read_places={0: SimpleNamespace(starts=None)},
        beside={},
        reached=lambda _: Reached(splits=40, rows=rows),
        generation=SimpleNamespace(checkpoint=Folder(tmp_path)),
    )
    found = Measurement(cast("QueryDeclaration", declared), 0)
    latest = report(35, {"0": 0}, {"0": 0})
    latest.runId, latest.batchId, latest.eventTime, latest.stateOperators = "run", 1, {}, []
    beat = cast("Heartbeat", SimpleNamespace(batches=1, rows_done=5_000, advanced_at_ms=None))
    fields = found.take(latest, 1, beat, idle=False)
    assert fields["rows_per_s"] == expected
