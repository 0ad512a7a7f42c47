"""Rows behind the watermark: counted once, red in history from the first, live from a share."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.supervision.late_row_findings import late_rows, look_at_late_rows
from sources.common.times import now_ms
from sources.config.supervision import LateRowLimits
from sources.errors import StateError
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.run_state.heartbeat import read_heartbeat
from spark_jobs.run_state.late_row_count import LateRows, read_late_rows
from tests.e2e.case import Case, as_json, live_of, wrong
from tests.e2e.in_session import run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
DISTINCT = """
from pyspark.sql import functions as F

def distinct(rows):
    return rows.withWatermark("at", "{delay}").dropDuplicates(["id", "at"])

def computed(rows):
    return distinct(rows.withColumn("at", F.expr("at + interval 0 seconds")))
"""


def distinct(case: Case, delay: str = "1 hour") -> None:
    """Transforms that drop what is late row by row, so that the count is exact."""
    with (case.folder / "transforms.py").open("a") as file:
        file.write(DISTINCT.format(delay=delay))


def one_by_one(document: dict[str, Any]) -> None:
    """History alone, one file in each micro-batch, without duplicates."""
    del document["sources"][1:]
    document["transform"] = "transforms:distinct"
    document["sources"][0]["batch"] = {"files": 1}


def counted(loaded: Any, source: str) -> LateRows:
    found = read_late_rows(loaded.require_generation(), source)
    assert found is not None
    return found


def test_late_rows_in_history_end_the_run_with_their_exact_number(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    distinct(case)
    # Spark drops by the watermark of the batch before the last: here in the third one.
    for at, early in enumerate([range(1), range(1, 2), range(2, 9)]):
        numbers = [*early, *range(1000 * at + 2000, 1000 * at + 3000)]
        case.write_history(numbers, files=1, name=lambda *_, at=at: f"{at}.parquet")

    def computed(document: dict[str, Any]) -> None:
        one_by_one(document)
        document["transform"] = "transforms:computed"

    loaded = case.pipeline(computed)
    with pytest.raises(StateError, match="dropped 7 late rows behind the watermark") as caught:
        run_history(spark, loaded)
    assert "`hybrid generation new P`" in caught.value.hint
    found = counted(loaded, "history")
    assert (found.dropped, found.unknown_batches) == (7, 0)
    assert PipelineContext.require(loaded).switch_state.end_of("history") is None
    # Again, and before Spark reads anything.
    with pytest.raises(StateError, match="dropped 7 late rows"):
        run_history(spark, loaded)

    def declared(document: dict[str, Any]) -> None:
        computed(document)
        document["supervision"] = {"late_rows": {"history": 7}}

    run_history(spark, case.pipeline(declared))
    beat = read_heartbeat(loaded.require_generation(), "history")
    assert beat is not None
    assert (beat.state, beat.late_rows) == ("finished", 7)
    assert wrong(audit(case.pipeline(declared))) == {"missing": 7}


def test_packed_json_that_overlaps_by_hours_is_no_longer_green(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    distinct(case)
    # Of a compressed file the first 4 MiB are sampled: not the hours that the next one repeats.
    (tmp_path / "in").mkdir()
    for at in range(4):
        rows = [{**json.loads(as_json(1400 * at + n)), "id": 3000 * at + n} for n in range(3000)]
        lines = "".join(json.dumps({**row, "padding": "x" * 3000}) + "\n" for row in rows)
        (tmp_path / "in" / f"{at}.json.gz").write_bytes(gzip.compress(lines.encode(), 1))

    def packed(document: dict[str, Any]) -> None:
        one_by_one(document)
        columns = {"id": "bigint", "at": "timestamp", "v": "double"}
        packed = {"path": "in/*.json.gz", "format": "json", "schema": columns}
        document["sources"][0] |= packed

    loaded = case.pipeline(packed)
    [part] = make_plan(loaded).files
    assert part.out_of_orderness == "unknown (in samples: less than 1 s)"
    with pytest.raises(StateError, match="micro-batch 2 dropped 140 late rows"):
        run_history(spark, loaded)


def test_a_transform_that_filters_before_its_watermark_is_accepted_and_right(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    distinct(case)
    # A row far ahead of all others, which the transform removes before it sets the watermark.
    case.write_history([*range(300), 90_000], files=1, name=lambda *_: "0.parquet")
    case.write_history(range(300, 600), files=1, name=lambda *_: "1.parquet")
    (tmp_path / "good.sql").write_text("SELECT DISTINCT * FROM input WHERE v < 40000")
    with (tmp_path / "transforms.py").open("a") as file:
        file.write(
            "\ndef early(rows):\n"
            '    good = rows.where("v < 40000")\n'
            '    return good.withWatermark("at", "1 hour").dropDuplicates(["id", "at"])\n'
        )

    def edit(document: dict[str, Any]) -> None:
        del document["sources"][1:]
        document["transform"] = "transforms:early"
        document["sources"][0]["batch"] = {"files": 1}
        document["audit"] = {"sql": "good.sql"}

    loaded = case.pipeline(edit)
    run_history(spark, loaded)
    assert counted(loaded, "history").dropped == 0
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (600, {})


def test_rows_that_are_late_across_the_seam_are_announced_and_counted(
    tmp_path: Path, servers: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(tmp_path, servers)
    distinct(case, "10 minutes")
    # History lacks events 930 to 949, which come late in the topic, within the declared lateness.
    case.write_history([n for n in range(1000) if not 930 <= n < 950])
    case.produce([*range(920, 1000), *range(1000, 1200)])

    def edit(document: dict[str, Any]) -> None:
        document["transform"] = "transforms:distinct"

    loaded = case.pipeline(edit)
    run_history(spark, loaded)
    told = capsys.readouterr().err
    assert "Source `live`: its rows from 2024-01-01T14:59:00Z to 2024-01-01T16:29:00Z may" in told
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    beat = run_live(spark, loaded, lambda beat: beat.late_rows is not None)
    assert (beat.late_rows, counted(loaded, "live").dropped) == (20, 20)
    assert counted(loaded, "history").dropped == 0
    assert wrong(audit(loaded)) == {"missing": 20}
    # 20 of the 280 records, which is more than 1 %, and less than 10 %.
    seen = look_at_late_rows(loaded, loaded.require_generation(), now_ms())
    assert seen is not None
    assert (seen.live, seen.read, seen.dropped, seen.history) == (20, 280, 20, 0)
    assert not late_rows(seen, LateRowLimits()).passed
    assert late_rows(seen, LateRowLimits(live=0.1)).passed
