"""The plan of files: its end, its order, and what it warns of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.common.times import to_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.file_options import FileBatch
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.source_listing import list_source
from sources.planning.event_times import misread_unit
from sources.planning.files import file_plan
from sources.planning.files.file_plan import FilePlan, plan_files
from sources.planning.files.micro_batches import batch_ends
from tests.minimal import minimal_model

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def write(folder: Path, name: str, *minutes: int | None) -> None:
    times = [None if m is None else NOON + timedelta(minutes=m) for m in minutes]
    (folder / "in").mkdir(exist_ok=True)
    at = pa.array(times, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": range(len(times)), "at": at}), folder / "in" / name)


def planned(
    folder: Path, event_time: str | dict[str, Any] = "at", **changes: Any
) -> tuple[FilePlan, list[str]]:
    source = {"type": "files", "name": "history", "path": "in", "format": "parquet", **changes}
    pipeline = minimal_model(source, event_time=event_time, allowed_lateness="10 min")
    loaded = LoadedPipeline(folder / "p.yaml", pipeline)
    (declared,) = pipeline.sources
    assert isinstance(declared, FileSource)
    return plan_files(loaded, declared, list_source(loaded, declared))


def ms(minutes: int) -> int:
    return to_ms(NOON + timedelta(minutes=minutes))


def test_a_time_range_ends_history_before_its_limit(tmp_path: Path) -> None:
    write(tmp_path, "a", 0, 30)
    write(tmp_path, "b", 40, 90)
    until = (NOON + timedelta(minutes=60)).isoformat()
    part, _ = planned(tmp_path, time_range={"until": until})
    # The highest time that is read, although the file has later rows.
    assert part.end.event_time_ms == ms(40)
    assert part.end.complete_through_ms == ms(30)
    until = (NOON + timedelta(minutes=85)).isoformat()
    part, _ = planned(tmp_path, time_range={"until": until})
    assert part.end.complete_through_ms == ms(30)


def test_rows_without_an_event_time_are_counted(tmp_path: Path) -> None:
    write(tmp_path, "a", 0, None, None)
    write(tmp_path, "b", None)
    _, warnings = planned(tmp_path)
    assert any("3 rows have no event time" in text for text in warnings)


def test_files_without_any_time_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a", None, None)
    with pytest.raises(InputError, match="1 file holds no rows with a time"):
        planned(tmp_path)


def test_many_small_files_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_plan, "MANY_FILES", 3)
    for at in range(3):
        write(tmp_path, str(at), at)
    _, warnings = planned(tmp_path)
    assert any("3 files of" in text and "Compact them" in text for text in warnings)


def test_seconds_read_as_milliseconds_are_suspected_within_wide_bounds(tmp_path: Path) -> None:
    seconds = [int(NOON.timestamp()), int(NOON.timestamp()) + 60]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [1, 2], "ts": seconds}), tmp_path / "in" / "a")
    event_time = {"column": "at", "not_before": "1960-01-01T00:00:00Z"}
    select = {"at": "timestamp_millis(ts)", "id": "id"}
    _, warnings = planned(tmp_path, event_time, select=select)
    assert any("probably seconds read as milliseconds" in text for text in warnings)


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (1, None),
        (1 / 1000, "seconds read as milliseconds"),
        (1000, "microseconds read as milliseconds"),
        (1_000_000, "nanoseconds read as milliseconds"),
    ],
)
def test_units_are_told_by_what_makes_them_plausible(factor: float, words: str | None) -> None:
    low, high = int(ms(0) * factor), int(ms(1000) * factor)
    assert (misread_unit(low, high) or "").startswith(words or "")
    assert (misread_unit(low, high) is None) == (words is None)


lengths = st.lists(st.integers(0, 100), min_size=1, max_size=40)


@given(lengths, st.integers(1, 10), st.integers(1, 300))
def test_batches_take_splits_until_a_limit_is_reached(
    sizes: list[int], files: int, size: int
) -> None:
    ends = batch_ends(sizes, FileBatch.model_validate({"files": files, "bytes": size})).tolist()
    assert ends[-1] == len(sizes)
    for first, end in zip([0, *ends], ends, strict=False):
        assert 0 < end - first <= files
        # Without its last split, a batch was below its limit; with one more it would not be.
        assert sum(sizes[first : end - 1]) < size
        is_last = end == len(sizes)
        assert is_last or end - first == files or sum(sizes[first:end]) >= size


@pytest.mark.parametrize(
    ("files", "minutes"),
    [(1, 25), (2, 0), (3, 0)],
    ids=["one by one", "pairs that overlap", "all together"],
)
def test_disorder_is_how_far_a_batch_reaches_back(tmp_path: Path, files: int, minutes: int) -> None:
    write(tmp_path, "a", 0, 30)
    write(tmp_path, "b", 5, 20)
    write(tmp_path, "c", 31, 40)
    part, warnings = planned(tmp_path, batch={"files": files})
    assert part.disorder_ms == minutes * 60_000
    assert any("out of order" in text for text in warnings) == bool(minutes)
