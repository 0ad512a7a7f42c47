"""A range that is recomputed in a table follows in the table that was made of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.analysis.spark.analyze import analyze
from hybrid_extensions.audit.run import audit
from hybrid_extensions.generations.switch import readiness
from hybrid_extensions.generations.switch.readiness import find_unready
from hybrid_extensions.ranges.backfill import RangeResult, backfill
from hybrid_extensions.ranges.followed import follow as following
from hybrid_extensions.ranges.followed.follow import follow
from hybrid_extensions.ranges.followed.followed_scope import scope_of
from hybrid_extensions.ranges.range_scope import RangeScope
from orchestration.remedies import Remedy
from orchestration.supervision.status import status_of
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.files.tables.replaced_range import ReplacedRange
from sources.generations import begin
from sources.kept_definitions import keep_definition
from sources.planning.context import PipelineContext
from sources.planning.transform_analysis import keep_analysis, request_by_plan
from sources.serving import own_table
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log
from tests.e2e.case import moment, wrong
from tests.e2e.in_session import run_history, run_live
from tests.hybrid_extensions.upstream.two_pipelines import TwoPipelines
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def begun(spark: SparkSession, case: TwoPipelines) -> LoadedPipeline:
    """The first pipeline, with 900 rows of history and 100 that arrived."""
    case.write_thousand()
    first = case.first()
    planned(spark, first)
    run_live(spark, first)
    return first


def planned(spark: SparkSession, loaded: LoadedPipeline) -> None:
    """Plan it, read its history, and keep what a launch keeps: the declaration, the analysis."""
    run_history(spark, loaded)
    context = PipelineContext.require(loaded)
    keep_definition(loaded, context.generation)
    request = request_by_plan(loaded, context.plan)
    empty = Folder(loaded.folder / "empty")
    keep_analysis(context.generation, analyze(spark, loaded, request, empty))


def correct(case: TwoPipelines) -> None:
    """Write the file of minutes 300 to 600 again: other values, and a third of the rows less."""
    ids = [n for n in range(300, 600) if n % 3]
    at = pa.array([moment(n) for n in ids], pa.timestamp("us", "UTC"))
    table = pa.table({"id": pa.array(ids, pa.int64()), "at": at, "v": [n * 2.0 for n in ids]})
    pq.write_table(table, case.folder / "in" / "000300.parquet")


def recompute(
    first: LoadedPipeline, since: int, until: int, *, is_regardless: bool = False
) -> RangeResult:
    key = f"{since}-{until}"
    return backfill(first, moment(since), moment(until), key, is_regardless=is_regardless)


def has_watermark(loaded: LoadedPipeline) -> bool:
    checkpoint = loaded.require_generation().checkpoint
    batch = offset_log.last_committed(checkpoint)
    return batch is not None and offset_log.watermark_ms(checkpoint, batch) > 0


def state(loaded: LoadedPipeline) -> Sequence[Any]:
    """How far the status says that the table is followed."""
    part = next(each for each in status_of(loaded).parts if each.name == "upstream")
    return part.rows[0].cells


@pytest.mark.parametrize("windows", [False, True], ids=["rows", "windows"])
def test_a_range_that_is_recomputed_upstream_follows_while_the_live_run_goes_on(
    tmp_path: Path, spark: SparkSession, windows: bool
) -> None:
    case = TwoPipelines(tmp_path)
    first, second = begun(spark, case), case.second(windows=windows)
    planned(spark, second)
    seen: dict[str, Any] = {}

    def goes_on() -> None:
        if windows:
            # Windows are final with the micro-batch after the one that has read the rows.
            wait_for(lambda: has_watermark(second), "a watermark", 480)
        correct(case)
        recompute(first, 300, 600)
        # After the range: read once the range has followed, and not before.
        case.arrive(range(1000, 1100))
        run_live(spark, first)
        seen["before"] = (case.differences(second), state(second))
        seen["done"] = follow(second)
        seen["again"] = follow(second)

    run_live(spark, second, meanwhile=goes_on)
    differences, cells = seen["before"]
    assert differences > 0
    assert "by a recomputed range, `at` from 2024-01-01T05:00:00Z" in cells[-1]
    assert "hybrid follow P" in cells[-1]
    [done], again = seen["done"], seen["again"]
    rows = (7, 7) if windows else (300, 200)
    assert (done.rows[:2], again) == (rows, [])
    assert case.differences(second) == 0
    assert state(second)[-1] == "up to date"
    report = audit(second)
    assert (wrong(report), report.ok, report.input_rows.sources) == ({}, True, {"rows": 1000})
    # There are no files of its own that what has followed could be recomputed from.
    with pytest.raises(StateError, match="Pipeline `second` has no bounded source of files"):
        recompute(second, 300, 600)
    assert case.differences(second) == 0
    # Another one, after which the run is started again.
    recompute(first, 0, 300)
    follow(second)
    case.arrive(range(1100, 1200))
    run_live(spark, first)
    run_live(spark, second)
    assert case.differences(second) == 0


def test_one_that_was_killed_before_it_was_recorded_is_done_once(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = TwoPipelines(tmp_path)
    first, second = begun(spark, case), case.second(windows=False)
    planned(spark, second)
    run_live(spark, second)
    correct(case)
    recompute(first, 300, 600)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(following, "pass_range", killed)
        with pytest.raises(KeyboardInterrupt):
            follow(second)
    # The range is there, and the run still waits before it.
    assert case.differences(second) == 0
    assert "hybrid follow P" in state(second)[-1]
    [done] = follow(second)
    assert done.rows[:2] == (0, 0)
    case.arrive(range(1000, 1100))
    run_live(spark, first)
    run_live(spark, second)
    assert case.differences(second) == 0


def test_a_range_of_open_windows_is_refused_before_it_is_recomputed(
    tmp_path: Path, spark: SparkSession
) -> None:
    case = TwoPipelines(tmp_path)
    first, second = begun(spark, case), case.second()
    planned(spark, second)
    run_live(spark, second, lambda _: has_watermark(second))
    replaced = ReplacedRange(column="at", since=moment(600), until=moment(900))
    reads = r"`second` can't follow the range .* of the table that it reads: its own windows"
    with pytest.raises(StateError, match=reads) as refused:
        following.require_followable(second, replaced)
    assert "Wait" not in refused.value.hint
    assert "`hybrid rerun P`" in refused.value.hint
    following.require_followable(second, replaced.model_copy(update={"until": moment(660)}))
    # Nor does a backfill begin: the range stays as it is in both tables.
    before = DeltaTable(first.target.url).version()
    with pytest.raises(StateError, match=r"pipeline `second`, .* could not follow") as caught:
        recompute(first, 600, 900)
    assert "--regardless" in caught.value.hint
    assert DeltaTable(first.target.url).version() == before
    done = recompute(first, 600, 900, is_regardless=True)
    way = Remedy("follow").command(str(second.path))
    assert f"and waits before this commit: {way}" in done.text
    other = replaced.model_copy(update={"column": "seen"})
    with pytest.raises(StateError, match="its own event time is the column `at`"):
        following.require_followable(second, other)
    with pytest.raises(StateError, match="Pipeline `first` follows no table"):
        follow(first)


def test_a_candidate_follows_too_and_is_not_promoted_before(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = TwoPipelines(tmp_path)
    first, second = begun(spark, case), case.second(windows=False)
    planned(spark, second)
    run_live(spark, second)
    begin(second)
    planned(spark, second)
    seen: dict[str, Any] = {}

    def goes_on() -> None:
        correct(case)
        recompute(first, 300, 600)
        # As the run says of itself: all that it has found is read.
        monkeypatch.setattr(readiness, "look_at_live", lambda *_: None)
        monkeypatch.setattr(readiness, "is_ready", lambda *_: True)
        candidate = PipelineContext.require(second)
        seen["waits"] = find_unready(candidate)
        seen["done"] = follow(second)
        seen["ready"] = find_unready(candidate)

    run_live(spark, second, meanwhile=goes_on)
    assert "can't read on" in seen["waits"].message
    assert "by a recomputed range" in seen["waits"].message
    assert "`hybrid follow P`" in seen["waits"].hint
    done = [(each.generation, each.rows[:2]) for each in seen["done"]]
    assert done == [("g1", (300, 200)), ("g2", (300, 200))]
    assert seen["ready"] is None
    assert case.differences(second) == 0
    candidate = DeltaTable(own_table(second, "g2").url).to_pyarrow_table()
    assert candidate.sort_by("id") == DeltaTable(second.target.url).to_pyarrow_table().sort_by("id")


def test_a_candidate_that_can_not_follow_is_told_and_holds_up_nothing(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = TwoPipelines(tmp_path)
    first, second = begun(spark, case), case.second(windows=False)
    planned(spark, second)
    run_live(spark, second)
    begin(second)
    # Planned, and not run: it has all files of before still to read.
    planned(spark, second)
    correct(case)
    recompute(first, 300, 600)
    said: list[str] = []
    assert [each.generation for each in follow(second, said.append)] == ["g1"]
    assert "Candidate g2 does not follow: The live run of `rows` does not run" in said[-1]
    assert "`hybrid resume P --generation g2`" in said[-1]

    def refuses(context: PipelineContext, replaced: ReplacedRange) -> RangeScope:
        if context.generation.name == "g2":
            message = "It merges single rows."
            raise StateError(message, "Rerun.")
        return scope_of(context, replaced)

    monkeypatch.setattr(following, "scope_of", refuses)
    assert follow(second, said.append) == []
    assert said[-1].endswith("merges single rows. " + following._DISCARD)
