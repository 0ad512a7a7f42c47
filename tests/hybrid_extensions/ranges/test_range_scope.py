"""Which ranges can be recomputed: what they read, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from hybrid_extensions.ranges import side_pipeline
from hybrid_extensions.ranges.backfill import latest_end
from hybrid_extensions.ranges.files.range_files import parts_in
from hybrid_extensions.ranges.range_scope import RangeScope, require_fit
from hybrid_extensions.ranges.table.event_range import Range
from sources.common.positions import EndPosition
from sources.common.times import to_ms
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, InputError, StateError
from sources.kept_definitions import keep_definition
from sources.planning.context import PipelineContext
from sources.planning.event_windows import EventWindows
from sources.planning.plan import make_plan
from sources.planning.transform_analysis import (
    OutputColumn,
    TransformAnalysis,
    keep_analysis,
    read_analysis,
    request_by_plan,
)
from spark_jobs.checkpoint.history_watermark import HistoryWatermark, keep_history_watermark
from spark_jobs.checkpoint.transform_compatibility import Transform
from spark_jobs.table.history_files import has_history_files
from tests.orchestration.generations.generation_case import GenerationCase

HOUR_US = 3_600_000_000
WINDOWS = EventWindows(
    length_us=2 * HOUR_US, slide_us=HOUR_US, offset_us=0, column="start", holds="start"
)
MERGED = {"sink": {"path": "out", "mode": "merge", "key": ["start"]}}
COUNTS = "count(1) by window(at, 7,200 s, 3,600 s)"


def at(hour: int) -> datetime:
    return datetime(2024, 3, 1, tzinfo=UTC) + timedelta(hours=hour)


class ScopeCase(GenerationCase):
    """History from 0:00 until 20:00 that is read to its end, and what is known of its transform."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        super().__init__(folder)
        self.write(**{**MERGED, **changes})
        (folder / "in").mkdir()
        lines = (f'{{"id": {n}, "at": "{at(n):%Y-%m-%dT%H:%M:%SZ}", "v": 1}}\n' for n in range(20))
        (folder / "in/a.json").write_text("".join(lines))
        make_plan(self.loaded)
        self.context = PipelineContext.require(self.loaded)
        keep_definition(self.loaded, self.context.generation)

    def known(
        self, windows: EventWindows | None, operators: str = COUNTS, why: str | None = None
    ) -> ScopeCase:
        """Keep what the run and the analysis say of the transform."""
        generation = self.context.generation
        run = Transform(
            name="transforms:features",
            first_batch=0,
            reached="",
            code="",
            plan="",
            operators=[operators],
            spark="4",
        )
        generation.replace("transforms/0.json", run)
        kept = TransformAnalysis(
            digest=request_by_plan(self.loaded, self.context.plan).digest,
            columns=[],
            stateful=[COUNTS] if operators == COUNTS else [],
            windows=windows,
            no_windows=why,
        )
        keep_analysis(generation, kept)
        return self

    def ended(self, complete: int = 18, watermark: int = 16) -> ScopeCase:
        """Let history be complete before an hour, and leave a watermark."""
        end = EndPosition(
            source="history",
            event_time_ms=to_ms(at(20)),
            complete_through_ms=to_ms(at(complete)) - 1,
            event_times="exact",
            splits=1,
            rows=20,
        )
        for source in self.loaded.pipeline.bounded_files:
            self.context.switch_state.finish(end.model_copy(update={"source": source.name}))
        self.batch(0, watermark)
        return self

    def batch(self, number: int, watermark: int) -> None:
        text = f'v1\n{{"batchWatermarkMs":{to_ms(at(watermark))}}}\n-'
        self.context.generation.checkpoint.replace_bytes(f"offsets/{number}", text.encode())

    def fit(self, since: int, until: int) -> RangeScope:
        return require_fit(self.context, at(since), at(until))

    def refused(self, since: int = 3, until: int = 5) -> HybridError:
        with pytest.raises((InputError, StateError)) as caught:
            self.fit(since, until)
        return caught.value


def test_the_rows_of_all_windows_that_start_in_the_range_are_read(tmp_path: Path) -> None:
    scope = ScopeCase(tmp_path).known(WINDOWS).ended().fit(3, 5)
    assert (scope.read.since, scope.read.until) == (at(3), at(6))
    assert scope.where("at") == Range("start", at(3), at(5))
    assert scope.why == (
        "A window of 2 h belongs to the range if it starts in it, so rows from "
        "2024-03-01T03:00:00Z until 2024-03-01T06:00:00Z are read."
    )


def test_a_table_of_ends_is_replaced_by_its_ends(tmp_path: Path) -> None:
    ends = WINDOWS.model_copy(update={"column": "start", "holds": "end"})
    scope = ScopeCase(tmp_path).known(ends).ended().fit(3, 5)
    assert scope.where("at") == Range("start", at(5), at(7))


def test_single_rows_are_read_as_they_are(tmp_path: Path) -> None:
    case = ScopeCase(tmp_path, sink={"path": "out", "mode": "append", "key": ["id"]})
    # A watermark alone keeps nothing.
    case.known(None, operators="a watermark of 1 hour on at").ended()
    scope = case.fit(3, 5)
    assert (scope.read, scope.windows, scope.why) == ((at(3), at(5)), None, None)
    assert scope.where("at") == Range("at", at(3), at(5))
    # All rows are of files, which were read to their end.
    assert case.fit(3, 24).read == (at(3), at(24))


def test_single_rows_that_a_live_run_may_still_add_to_are_refused(tmp_path: Path) -> None:
    sink = {"path": "out", "mode": "append", "key": ["id"]}
    case = ScopeCase(tmp_path, sink=sink).known(None, operators="a watermark of 1 hour on at")
    [history] = yaml.safe_load((tmp_path / "events.yaml").read_text())["sources"]
    topic = {"type": "kafka", "name": "live", "topic": "events", "bootstrap_servers": "localhost:1"}
    case.write(sink=sink, sources=[history, topic])
    keep_definition(case.loaded, case.context.generation)
    case.context = PipelineContext(case.loaded, case.context.generation)
    case.ended()
    assert case.fit(3, 18).read == (at(3), at(18))
    assert "complete through 2024-03-01T17:59:59.999Z" in case.refused(3, 19).message


@pytest.mark.parametrize(
    ("inputs", "same", "is_fit"),
    [
        (["at"], ["at"], True),
        (["at"], [], False),
        ([], [], False),
        # Of `mapInPandas` nothing is known.
        (None, [], True),
        # An analysis of an earlier version.
        (["at"], None, True),
    ],
)
def test_a_range_by_an_event_time_that_the_transform_computes_is_refused(
    tmp_path: Path, inputs: list[str] | None, same: list[str] | None, *, is_fit: bool
) -> None:
    case = ScopeCase(tmp_path, sink={"path": "out", "mode": "append", "key": ["id"]})
    case.known(None, operators="").ended()
    column = OutputColumn(name="at", type="timestamp", nullable=True, inputs=inputs)
    found = read_analysis(case.context.generation)
    assert found is not None
    known = found.model_copy(update={"columns": [column], "same": same})
    keep_analysis(case.context.generation, known)
    if is_fit:
        assert case.fit(3, 5).is_of_single_rows
        return
    refused = case.refused()
    assert "computes the event time `at` of its rows" in str(refused)
    assert "hybrid rerun P" in refused.hint


def test_ranges_of_history_end_with_the_files_before_a_growing_folder(tmp_path: Path) -> None:
    columns = {"id": "bigint", "at": "timestamp", "v": "bigint"}
    history = {"type": "files", "format": "json", "schema": columns, "name": "history"}
    more = {**history, "name": "more", "path": "more/*.json", "discovery_interval": "10 s"}
    (tmp_path / "more").mkdir()
    (tmp_path / "more/b.json").write_text('{"id": 50, "at": "2024-03-02T00:00:00Z", "v": 1}\n')
    sink = {"path": "out", "mode": "append", "key": ["id"]}
    case = ScopeCase(tmp_path, sink=sink, sources=[{**history, "path": "in/*.json"}, more])
    case.known(None, operators="a watermark of 1 hour on at").ended()
    # The last millisecond of a day belongs to it: its partition is of history.
    assert latest_end(case.loaded) == at(18)
    assert case.fit(3, 18).read == (at(3), at(18))


def test_without_files_no_range_is_covered(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    topic = {"type": "kafka", "name": "history", "topic": "events", "start": "earliest"}
    columns = {"id": "bigint", "at": "timestamp", "v": "bigint"}
    case.write(sources=[topic | {"schema": columns}])
    generation = case.loaded.open_generation(create=True)
    assert generation is not None
    keep_definition(case.loaded, generation)
    assert latest_end(case.loaded) is None


def test_windows_that_end_after_the_watermark_of_history_are_the_live_runs(tmp_path: Path) -> None:
    case = ScopeCase(tmp_path).known(WINDOWS).ended(watermark=16)
    # The last one starts at 14:00 and ends at 16:00.
    assert case.fit(3, 15).read.until == at(16)
    refused = case.refused(3, 16)
    assert "The last window of the range ends at 2024-03-01T17:00:00Z, but history" in str(refused)
    assert "left the watermark 2024-03-01T16:00:00Z to the live run" in refused.message
    assert (
        refused.hint
        == "Set `until` to 2024-03-01T15:00:00Z or earlier, then recompute the range again."
    )
    assert "Choose a range before 2024-03-01T15:00:00Z." in case.refused(15, 16).hint
    assert latest_end(case.loaded) == at(15)


def test_windows_whose_rows_are_not_all_in_files_are_refused(tmp_path: Path) -> None:
    case = ScopeCase(tmp_path).known(WINDOWS).ended(complete=10)
    assert case.fit(3, 9).read.until == at(10)
    assert "is complete before 2024-03-01T10:00:00Z only" in case.refused(3, 10).message


def test_the_live_run_moves_its_watermark_but_not_that_of_history(tmp_path: Path) -> None:
    case = ScopeCase(tmp_path).known(WINDOWS).ended(watermark=9)
    generation = case.context.generation
    keep_history_watermark(generation)
    case.batch(1, 17)
    keep_history_watermark(generation)
    assert generation.read("history-watermark.json", HistoryWatermark) == HistoryWatermark(
        watermark_ms=to_ms(at(9))
    )
    assert case.fit(3, 8).read.until == at(9)
    assert "left the watermark 2024-03-01T09:00:00Z" in case.refused(3, 9).message


def test_a_live_run_that_recorded_no_watermark_of_history_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = ScopeCase(tmp_path).known(WINDOWS).ended()
    case.context.generation.replace_bytes("history-files.parquet", b"")
    assert has_history_files(case.context.generation)
    assert "has no record of the watermark that history left" in case.refused().message


def test_a_range_without_the_start_of_a_window_is_refused(tmp_path: Path) -> None:
    daily = WINDOWS.model_copy(update={"length_us": 24 * HOUR_US, "slide_us": 24 * HOUR_US})
    refused = ScopeCase(tmp_path).known(daily).ended().refused()
    assert "windows of 1 d start every 1 d" in refused.message
    assert refused.hint == "Choose a range of 1 d or more."


@pytest.mark.parametrize(
    ("sink", "windows", "why", "told"),
    [
        ({}, None, "it groups rows by `session_window`", "it groups rows by `session_window`."),
        ({"key": ["id"]}, WINDOWS, None, "`sink.key` (id) does not contain `start`"),
        ({"sequence": "v"}, WINDOWS, None, "`sink.sequence: v` orders the versions of a window"),
    ],
)
def test_other_state_is_refused_with_the_reason_and_the_way_out(
    tmp_path: Path, sink: dict[str, Any], windows: EventWindows | None, why: str | None, told: str
) -> None:
    case = ScopeCase(tmp_path, sink={**MERGED["sink"], **sink})
    case.known(windows, why=why).ended()
    refused = case.refused()
    assert "keeps state, and ranges of its table can't be recomputed: " in refused.message
    assert told in refused.message
    assert "hybrid rerun P" in refused.hint


SINGLE = {"path": "out", "mode": "merge", "key": ["id"]}
WATERMARK = "a watermark of 1 hour on at"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, "without `sink.sequence` it is unknown which version of a row is the latest"),
        ({"sequence": "v", "deleted": "gone"}, "rows that were deleted are not in the table"),
        ({"sequence": "v", "unchanged": "kept"}, "values that `sink.unchanged: kept` names"),
    ],
)
def test_single_rows_that_are_merged_without_an_order_are_refused_with_the_reason(
    tmp_path: Path, more: dict[str, Any], told: str
) -> None:
    case = ScopeCase(tmp_path, sink={**SINGLE, **more}).known(None, operators=WATERMARK).ended()
    assert "merges rows by key (`sink.mode: merge`), and a range" in case.refused().message
    assert told in case.refused().message


def test_a_table_with_every_version_of_a_row_has_no_ranges(tmp_path: Path) -> None:
    case = ScopeCase(tmp_path, sink={**SINGLE, "sequence": "v", "history": "at"}).ended()
    error = case.refused()
    assert "has every version of a row (`sink.history: at`)" in error.message
    assert "hybrid rerun" in error.hint


def test_single_rows_that_are_merged_in_order_have_ranges(tmp_path: Path) -> None:
    case = ScopeCase(tmp_path, sink={**SINGLE, "sequence": ["at", "v"]})
    scope = case.known(None, operators=WATERMARK).ended().fit(3, 5)
    assert (scope.order, scope.read, scope.why) == (["at", "v"], (at(3), at(5)), None)
    side = declared(case, scope)
    assert side["sink"]["sequence"] == ["at", "v"]
    assert "batch" not in side["sources"][0]


def test_history_that_is_not_read_yet_has_no_ranges(tmp_path: Path) -> None:
    assert "has not read `history` to its end yet" in ScopeCase(tmp_path).refused().message


def declared(case: ScopeCase, scope: RangeScope) -> dict[str, Any]:
    folder = case.context.generation.folder("ranges/x")
    parts = parts_in(case.context, scope)
    side = side_pipeline.side_pipeline(case.context, folder, scope, parts)
    assert isinstance(side, LoadedPipeline)
    document: dict[str, Any] = yaml.safe_load(side.path.read_text())
    return document


def test_windows_are_computed_in_one_micro_batch_in_which_no_row_is_late(tmp_path: Path) -> None:
    sink = {"path": "out", "mode": "append", "key": ["start"]}
    case = ScopeCase(
        tmp_path, sink=sink, rules={"sound": {"check": "v > 0", "on_violation": "drop"}}
    )
    case.known(WINDOWS).ended()
    document = declared(case, case.fit(3, 5))
    [source] = document["sources"]
    assert source["time_range"] == {"since": at(3).isoformat(), "until": at(6).isoformat()}
    assert source["batch"]["files"] > 10**9
    assert document["sink"]["mode"] == "merge", "so that open windows are written, too"
    assert document["rules"], "what history leaves out, a range leaves out"


def test_windows_that_are_selected_by_content_are_of_one_source(tmp_path: Path) -> None:
    files = {"type": "files", "format": "json", "path": "in/*.json"}
    columns = {"schema": {"id": "bigint", "at": "timestamp", "v": "bigint"}}
    parts = [
        {**files, **columns, "name": "early", "time_range": {"until": at(4).isoformat()}},
        {**files, **columns, "name": "history", "time_range": {"since": at(4).isoformat()}},
    ]
    case = ScopeCase(tmp_path, sources=parts)
    case.known(WINDOWS.model_copy(update={"is_selective": True})).ended()
    assert declared(case, case.fit(5, 7))["sources"][0]["name"] == "history"
    with pytest.raises(StateError, match="are in the sources `early` and `history`") as refused:
        declared(case, case.fit(2, 5))
    assert "Choose ranges whose windows lie in one of the sources." in refused.value.hint
