"""A damaged file fails the ranges that it has rows of, and no other one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_extensions.ranges import adjacent
from hybrid_extensions.ranges.adjacent import backfill_adjacent
from hybrid_extensions.ranges.backfill import RangeResult, look
from hybrid_extensions.ranges.files.range_files import left_out_in_words, parts_in
from hybrid_extensions.ranges.range_scope import RangeScope
from hybrid_extensions.ranges.side_pipeline import side_pipeline
from hybrid_extensions.ranges.table.replace_range import Replaced
from sources.config.loader import LoadedPipeline
from sources.formats.parquet.footer import UnreadableFileError
from sources.kept_definitions import keep_definition
from sources.planning.context import PipelineContext
from sources.planning.event_windows import Interval
from sources.planning.plan import make_plan
from tests.orchestration.generations.generation_case import GenerationCase

DAYS = range(1, 6)


def day(number: int) -> datetime:
    return datetime(2023, 12, number, tzinfo=UTC)


def scope(first: int, beyond: int) -> RangeScope:
    return RangeScope(day(first), day(beyond), None, Interval(day(first), day(beyond)))


def write(file: Path, number: int) -> None:
    at = pa.array([day(number)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": [number], "at": at, "v": [10]}), file)


@pytest.fixture
def case(tmp_path: Path) -> GenerationCase:
    """Five files of a day each, read to the end; then that of the third is cut off."""
    made = GenerationCase(tmp_path)
    source = {"type": "files", "name": "history", "format": "parquet", "path": "in/[a-z]*.parquet"}
    made.write(sources=[source])
    (tmp_path / "in").mkdir()
    for number in DAYS:
        write(tmp_path / f"in/day [{number}].parquet", number)
    made.run({1: 10}, at=day(1))
    make_plan(made.loaded)
    keep_definition(made.loaded, made.loaded.require_generation())
    damaged = tmp_path / "in/day [3].parquet"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    return made


def test_a_range_without_rows_of_the_damaged_file_reads_the_other_files(
    case: GenerationCase,
) -> None:
    context = PipelineContext.require(case.loaded)
    [part] = parts = parts_in(context, scope(4, 6))
    assert [Path(path).name for path in part.damaged] == ["day [3].parquet"]
    assert "day [3].parquet. They can't be read" in str(left_out_in_words(parts))
    folder = context.generation.folder("ranges/x")
    side = side_pipeline(context, folder, scope(4, 6), parts)
    assert side is not None
    # With its own look at the files: those that were chosen alone.
    assert make_plan(side).files_of("history").splits == 2
    assert "day [3].parquet" in look(case.loaded, day(4), day(6)).text


def test_a_range_with_rows_of_it_is_refused_by_its_name(case: GenerationCase) -> None:
    context = PipelineContext.require(case.loaded)
    for first, beyond in ((3, 4), (1, 6)):
        with pytest.raises(UnreadableFileError, match="may have rows of the range") as error:
            parts_in(context, scope(first, beyond))
        assert error.value.fields["file"].endswith("/day [3].parquet")
        assert error.value.hint.endswith("Then recompute the range again.")


def test_a_damaged_file_that_the_plan_does_not_know_may_be_of_any_range(
    case: GenerationCase,
) -> None:
    (case.folder / "in/new.parquet").write_bytes(b"no Parquet, although it is long enough")
    context = PipelineContext.require(case.loaded)
    with pytest.raises(UnreadableFileError, match=r"new\.parquet can't be read"):
        parts_in(context, scope(5, 6))


def test_of_adjacent_ranges_only_those_of_the_damaged_file_are_left_as_they_are(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Spark run of each is left out; what it would read is looked at."""
    asked: list[tuple[int, int, str]] = []

    def recompute(
        loaded: LoadedPipeline, since: datetime, until: datetime, run_id: str, *_: object
    ) -> RangeResult:
        found = look(loaded, since, until)
        asked.append((since.day, until.day, run_id))
        return RangeResult(found.scope, "g1", Replaced(1, 1, 0))

    monkeypatch.setattr(adjacent, "backfill", recompute)
    ranges = {str(number): (day(number), day(number + 1)) for number in DAYS}
    done = names_of(backfill_adjacent(case.loaded, ranges, "run"))
    with pytest.raises(UnreadableFileError) as error:
        list(done)
    assert asked == [(1, 3, "run-20231201T0000"), (4, 6, "run-20231204T0000")]
    assert "Of 5 ranges 4 were recomputed." in error.value.message
    assert "day [3].parquet." in error.value.message.partition("Left as they were")[2]

    write(case.folder / "in/day [3].parquet", 3)
    assert list(names_of(backfill_adjacent(case.loaded, ranges, "run"))) == [list(ranges)]


def names_of(done: Iterator[tuple[list[str], RangeResult]]) -> Iterator[list[str]]:
    for names, _ in done:
        yield names
