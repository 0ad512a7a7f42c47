"""A row whose time was corrected from one range to another: who recomputes one alone is warned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_extensions.ranges.backfill import look
from sources.kept_definitions import keep_definition
from sources.planning.plan import make_plan
from tests.orchestration.generations.generation_case import GenerationCase


def day(number: int) -> datetime:
    return datetime(2023, 12, number, tzinfo=UTC)


def write(file: Path, *moments: datetime) -> None:
    at = pa.array(moments, pa.timestamp("us", "UTC"))
    ids = [file.name + str(n) for n in range(len(at))]
    pq.write_table(pa.table({"id": ids, "at": at, "v": [10] * len(at)}), file)


@pytest.fixture
def case(tmp_path: Path) -> GenerationCase:
    """Four files of a day each, two rows in each one, read to the end."""
    made = GenerationCase(tmp_path)
    source = {"type": "files", "name": "history", "format": "parquet", "path": "in/*.parquet"}
    made.write(sources=[source])
    (tmp_path / "in").mkdir()
    for number in range(1, 5):
        write(tmp_path / f"in/{number}.parquet", day(number), day(number) + timedelta(hours=9))
    made.run({1: 10}, at=day(1))
    make_plan(made.loaded)
    keep_definition(made.loaded, made.loaded.require_generation())
    return made


@pytest.mark.parametrize("corrected", [2, 3])
def test_a_file_that_reaches_into_another_range_is_named(
    case: GenerationCase, corrected: int
) -> None:
    """The row moves away from the range of day 2, or into it from that of day 3."""
    moment = day(3) + timedelta(minutes=2 if corrected == 2 else -2)
    write(case.folder / f"in/{corrected}.parquet", day(corrected) + timedelta(hours=1), moment)
    told = look(case.loaded, day(2), day(3)).text
    assert f"in/{corrected}.parquet has rows from 2023-12-0" in told
    assert "until the ranges of both times are recomputed" in told
    assert "Warning" not in look(case.loaded, day(2), day(4)).text, "both at once"


def test_rows_that_stay_in_their_range_need_no_other_one(case: GenerationCase) -> None:
    write(case.folder / "in/2.parquet", day(2), day(2) + timedelta(hours=8))
    write(case.folder / "in/3.parquet", day(3), day(4) + timedelta(hours=8))
    assert "Warning" not in look(case.loaded, day(2), day(3)).text
