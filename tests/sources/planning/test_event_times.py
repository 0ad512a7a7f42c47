"""Event times that can't be right: shown in the plan, refused, and without weight in it."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from sources.common.times import now_ms, to_ms
from sources.config.loader import load_pipeline
from sources.errors import InputError
from sources.files.listing import sampler
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from sources.planning.plan import Plan, draft_plan, make_plan
from tests.extensions import needs
from tests.minimal import minimal_declaration
from tests.properties import examples
from tests.sources.files.dirty_files import (
    EPOCH,
    FORMATS,
    FUTURE,
    NOON,
    WRONG,
    minute,
    write_files,
)

LATENESS = timedelta(minutes=10)
EXACT = ("parquet", "delta", "orc")


def declared(folder: Path, form: str = "parquet", outside: str = "fail", **changes: Any) -> Path:
    event_time = {"column": "at", "outside": outside, **changes.pop("event_time", {})}
    source = {"name": "history", "type": "files", "path": "in", **FORMATS[form], **changes}
    document = minimal_declaration(
        source, name="p", event_time=event_time, allowed_lateness="10 min"
    )
    path = folder / "p.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def planned(folder: Path, form: str = "parquet", outside: str = "fail", **changes: Any) -> Plan:
    return draft_plan(load_pipeline(declared(folder, form, outside, **changes)))[0]


@needs("expressions")
@pytest.mark.parametrize("form", FORMATS)
def test_a_row_of_2099_is_refused_before_anything_is_planned(tmp_path: Path, form: str) -> None:
    write_files(tmp_path, form, [[minute(0), minute(1)], [minute(2), FUTURE]])
    with pytest.raises(InputError) as caught:
        make_plan(load_pipeline(declared(tmp_path, form)))
    error = caught.value
    assert error.message.startswith("Source `history`: event times of 1 ")
    assert "2099-06-01T00:00:00Z" in error.message
    assert str(tmp_path / "in") in error.message
    assert "1.parquet" in error.message or form != "parquet"
    assert error.hint is not None
    for way_out in ("not_after", "outside: quarantine", "drop", "keep"):
        assert way_out in error.hint
    assert ("1 sampled row " in error.message) == (form not in EXACT)
    assert not (tmp_path / "state").exists()


@needs("expressions")
@pytest.mark.parametrize("outside", ["drop", "quarantine", "keep"])
@pytest.mark.parametrize("form", FORMATS)
def test_a_row_outside_moves_neither_end_nor_begin_of_history(
    tmp_path: Path, form: str, outside: str
) -> None:
    wrong = WRONG if form != "orc" else (FUTURE, EPOCH)
    write_files(tmp_path, form, [[minute(0), *wrong], [minute(5), None, minute(9)]])
    plan = planned(tmp_path, form, outside)
    (part,) = plan.files
    assert part.event_min_ms == to_ms(minute(0))
    assert part.end.event_time_ms == to_ms(minute(9))
    assert part.end.complete_through_ms == to_ms(minute(9) - LATENESS)
    times = part.times
    assert (times.lowest_ms, times.highest_ms) == (to_ms(minute(0)), to_ms(minute(9)))
    assert (times.outside, times.outside_files) == (len(wrong), 1)
    assert times.outside_lowest_ms == to_ms(min(wrong))
    assert times.outside_highest_ms == to_ms(FUTURE)
    assert times.evidence == ("exact" if form in EXACT else "sampled")
    assert len(times.shown_files) == 1
    (warning,) = [text for text in plan.warnings if "lie outside of" in text]
    assert f"{len(wrong):,}" in warning


def test_the_bounds_are_those_of_the_plans_clock(tmp_path: Path) -> None:
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    soon = datetime.combine(tomorrow, time.max, UTC)
    late = soon + timedelta(days=2)
    write_files(tmp_path, "parquet", [[minute(0), soon, late]])
    before = now_ms()
    plan = planned(tmp_path, outside="drop")
    assert before <= plan.created_ms <= now_ms()
    (part,) = plan.files
    day_after = datetime.fromtimestamp(plan.created_ms / 1000, UTC).date() + timedelta(days=1)
    assert part.times.not_after_ms == to_ms(datetime.combine(day_after, time.max, UTC))
    assert part.end.event_time_ms == to_ms(soon)
    assert part.times.outside == 1


def test_declared_bounds_are_inclusive(tmp_path: Path) -> None:
    write_files(tmp_path, "parquet", [[minute(0), minute(1), minute(2), minute(3)]])
    bounds = {"not_before": minute(1).isoformat(), "not_after": minute(2).isoformat()}
    (part,) = planned(tmp_path, outside="drop", event_time=bounds).files
    assert (part.event_min_ms, part.end.event_time_ms) == (to_ms(minute(1)), to_ms(minute(2)))
    assert part.times.outside == 2


def test_files_within_the_bounds_are_not_opened_for_their_rows(tmp_path: Path) -> None:
    write_files(tmp_path, "parquet", [[minute(0)], [minute(1), FUTURE], [minute(2)]])
    without_rows(tmp_path / "in" / "0.parquet")
    without_rows(tmp_path / "in" / "2.parquet")
    (part,) = planned(tmp_path, outside="drop").files
    assert part.times.outside == 1
    without_rows(tmp_path / "in" / "1.parquet")
    with pytest.raises(InputError, match=r"1\.parquet"):
        planned(tmp_path, outside="drop")


def without_rows(file: Path) -> None:
    """Overwrite the rows of a Parquet file; its footer stays."""
    content = bytearray(file.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    content[4:-footer] = bytes(len(content) - footer - 4)
    file.write_bytes(content)


@pytest.mark.parametrize("form", ["parquet", "orc", "json"])
def test_until_beyond_the_data_is_not_complete_through(tmp_path: Path, form: str) -> None:
    # The late row counts, by the wide bounds: it is cut off, and proves nothing.
    write_files(tmp_path, form, [[minute(0), minute(30)], [minute(40), FUTURE]])
    until = (NOON + timedelta(days=300)).isoformat()
    wide = {"not_after": "2200-01-01T00:00:00Z"}
    (part,) = planned(tmp_path, form, time_range={"until": until}, event_time=wide).files
    assert part.end.event_time_ms == to_ms(minute(40))
    assert part.end.complete_through_ms == to_ms(minute(40) - LATENESS)
    assert part.times.outside == 0


def test_a_declared_complete_through_ends_with_the_time_range(tmp_path: Path) -> None:
    write_files(tmp_path, "parquet", [[minute(0), minute(30)]])
    through = minute(60).isoformat()
    (part,) = planned(tmp_path, complete_through=through).files
    assert part.end.complete_through_ms == to_ms(minute(60))
    limits = {"until": minute(20).isoformat()}
    (part,) = planned(tmp_path, complete_through=through, time_range=limits).files
    assert part.end.complete_through_ms == to_ms(minute(20)) - 1


@pytest.mark.parametrize("form", EXACT)
def test_a_file_that_a_wrong_row_alone_places_in_the_time_range_is_not_read(
    tmp_path: Path, form: str
) -> None:
    write_files(tmp_path, form, [[minute(0), FUTURE], [minute(10), minute(20)]])
    since = {"since": minute(10).isoformat()}
    (part,) = planned(tmp_path, form, time_range=since).files
    assert (part.event_min_ms, part.end.event_time_ms) == (to_ms(minute(10)), to_ms(minute(20)))
    assert (part.splits, part.times.outside) == (1, 0)
    # Kept rows are read like others.
    (part,) = planned(tmp_path, form, "keep", time_range=since).files
    assert (part.splits, part.times.outside) == (2, 1)
    assert part.end.event_time_ms == to_ms(minute(20))
    with pytest.raises(InputError, match="no file holds rows of its `time_range`"):
        planned(tmp_path, form, time_range={"since": minute(30).isoformat()})


@needs("expressions")
def test_times_in_a_wrong_unit_are_refused_by_their_probable_unit(tmp_path: Path) -> None:
    lines = "\n".join(f'{{"id": {n}, "s": {int(minute(n).timestamp())}}}' for n in range(5))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(lines)
    changes = {
        "schema": {"id": "bigint", "s": "bigint"},
        "select": {"id": "id", "at": "timestamp_millis(s)"},
    }
    for outside in ("fail", "drop"):
        with pytest.raises(InputError, match="probably seconds read as milliseconds"):
            planned(tmp_path, "json", outside, **changes)


def test_a_sample_of_wrong_times_alone_does_not_hide_the_rows_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "SAMPLE_BYTES", 60)
    write_files(tmp_path, "json", [[FUTURE, FUTURE, minute(0), minute(1), EPOCH, EPOCH]])
    (part,) = planned(tmp_path, "json", "drop").files
    assert (part.event_min_ms, part.end.event_time_ms) == (to_ms(minute(0)), to_ms(minute(1)))


def test_a_number_that_is_no_time_at_all_is_outside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    seconds = [int(minute(0).timestamp()), 2**62, -(2**62), None]
    pq.write_table(pa.table({"id": range(4), "s": seconds}), tmp_path / "in" / "a.parquet")
    select = {"id": "id", "at": "timestamp_seconds(s)"}
    (part,) = planned(tmp_path, outside="drop", select=select).files
    assert part.end.event_time_ms == to_ms(minute(0))
    assert part.times.outside == 2


def test_all_rows_outside_leave_no_history(tmp_path: Path) -> None:
    write_files(tmp_path, "parquet", [[FUTURE, EPOCH]])
    with pytest.raises(InputError, match=r"no rows with a time that counts\..* of 2 rows"):
        planned(tmp_path, outside="drop")


def test_out_of_orderness_is_that_of_the_rows_that_count(tmp_path: Path) -> None:
    write_files(tmp_path, "parquet", [[minute(0), FUTURE], [minute(1), EPOCH], [minute(2)]])
    (part,) = planned(tmp_path, outside="drop", batch={"files": 1}).files
    assert part.disorder_ms == 0


def test_each_listing_of_a_growing_folder_is_judged(tmp_path: Path) -> None:
    write_files(tmp_path, "parquet", [[minute(0), FUTURE]])
    growing = {"discovery_interval": "1 s"}
    with pytest.raises(InputError, match="2099"):
        planned(tmp_path, **growing)
    loaded = load_pipeline(declared(tmp_path, outside="drop", **growing))
    plan = make_plan(loaded)
    assert plan.folder is not None
    assert plan.folder.times.outside == 1
    folder = GrowingFolder(PipelineContext.require(loaded))
    write_files(tmp_path, "parquet", [[minute(0), FUTURE], [minute(1), EPOCH, EPOCH]])
    found = folder.discover()
    assert found is not None
    assert found.times.outside == 2
    strict = load_pipeline(declared(tmp_path, **growing))
    write_files(tmp_path, "parquet", [[minute(0), FUTURE], [minute(1), EPOCH, EPOCH], [FUTURE]])
    with pytest.raises(InputError, match=r"2099-06-01T00:00:00Z, in .*2\.parquet"):
        GrowingFolder(PipelineContext.require(strict)).discover()


times = st.integers(0, 500).map(minute)
wrong_times = st.sampled_from([*WRONG, FUTURE + timedelta(days=1), minute(-(10**8) // 2)])
files_of_rows = st.lists(
    st.tuples(st.lists(times, max_size=4), st.lists(wrong_times | st.none(), max_size=4)),
    min_size=1,
    max_size=5,
).filter(lambda files: any(right for right, _ in files))


@examples(60, suppress_health_check=[HealthCheck.too_slow])
@given(files=files_of_rows, form=st.sampled_from(["parquet", "json"]), until=st.none() | times)
def test_whatever_rows_are_outside_the_plan_is_that_of_the_rows_inside(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[tuple[list[datetime], list[datetime | None]]],
    form: str,
    until: datetime | None,
) -> None:
    limits = {} if until is None else {"time_range": {"until": until.isoformat()}}
    found: list[tuple[int, ...] | None] = []
    for dirty in (False, True):
        folder = tmp_path_factory.mktemp("p")
        rows = [[*right, *(wrong if dirty else [])] for right, wrong in files]
        write_files(folder, form, rows)
        try:
            plan = planned(folder, form, "drop", batch={"files": 1}, **limits)
        except InputError:
            found.append(None)
            continue
        (part,) = plan.files
        end = part.end
        found.append(
            (part.event_min_ms, end.event_time_ms, end.complete_through_ms, part.disorder_ms)
        )
        if dirty:
            wrong = [at for _, extra in files for at in extra if at is not None]
            assert part.times.outside == len(wrong) or until is not None
    assert found[0] == found[1]
