"""Splits of file sources: listing, statistics, order, and what is refused."""

from __future__ import annotations

import gzip
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.common.schema import TIMESTAMP, names_and_types
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.changed_splits import changed_splits
from sources.files.listing.source_listing import list_source, list_splits
from sources.files.listing.split_table import FileListing
from sources.formats.event_times import microseconds
from sources.formats.parquet import footers as parquet
from sources.storage.listing import find_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.extensions import needs
from tests.minimal import minimal_pipeline
from tests.properties import examples
from tests.sources.storage.int96_files import EARLY, FAR

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp() * 1_000_000)
STORES = Stores(S3Settings())
COLUMNS = {"id": "bigint", "at": "timestamp"}


def listing(declared: FileSource, folder: Path) -> FileListing:
    files = find_files(declared.name, declared.patterns, folder, STORES)
    return list_splits(declared, "at", files, STORES)


def source(path: str = "*.parquet", **changes: Any) -> FileSource:
    return FileSource.model_validate(
        {"type": "files", "name": "history", "path": path, "format": "parquet", **changes}
    )


def json_source(path: str = "*.json") -> FileSource:
    return source(path, format="json", schema=COLUMNS)


def rows(*minutes: int, unit: str = "us", zone: str | None = "UTC") -> pa.Table:
    moments = [NOON + timedelta(minutes=minute) for minute in minutes]
    if zone is None:
        moments = [moment.replace(tzinfo=None) for moment in moments]
    kind = pa.timestamp(unit, tz=zone)
    return pa.table({"id": pa.array(minutes, pa.int64()), "at": pa.array(moments, kind)})


def refusal(folder: Path, spec: FileSource) -> str:
    with pytest.raises(InputError) as caught:
        listing(spec, folder)
    return str(caught.value)


def test_splits_come_in_the_order_of_their_event_time(tmp_path: Path) -> None:
    for name, minutes in (("a", (30, 40)), ("b", (0, 10)), ("c", (15, 20))):
        pq.write_table(rows(*minutes), tmp_path / f"{name}.parquet")
    found = listing(source(), tmp_path)
    assert [Path(path).stem for path in found.splits["path"].to_pylist()] == ["b", "c", "a"]
    assert found.splits["event_max_us"].to_pylist()[-1] == NOON_US + 40 * 60_000_000
    assert found.splits["rows"].to_pylist() == [2, 2, 2]
    assert found.exact


@examples(40)
@given(
    groups=st.lists(st.lists(st.integers(-5_000, 5_000), min_size=1, max_size=20), min_size=1),
    unit=st.sampled_from(["ms", "us"]),
    zone=st.sampled_from([None, "UTC", "America/New_York"]),
    statistics=st.booleans(),
)
def test_event_times_are_those_of_the_rows_however_they_are_stored(
    tmp_path_factory: pytest.TempPathFactory,
    groups: list[list[int]],
    unit: str,
    zone: str | None,
    statistics: bool,
) -> None:
    folder = tmp_path_factory.mktemp("files")
    with pq.ParquetWriter(
        folder / "x.parquet", rows(0, unit=unit, zone=zone).schema, write_statistics=statistics
    ) as writer:
        for minutes in groups:
            writer.write_table(rows(*minutes, unit=unit, zone=zone))
    split = listing(source(), folder).splits.to_pylist()[0]
    every = [minute for minutes in groups for minute in minutes]
    assert split["event_min_us"] == NOON_US + min(every) * 60_000_000
    assert split["event_max_us"] == NOON_US + max(every) * 60_000_000


def test_sparks_own_int96_timestamps_are_understood(tmp_path: Path) -> None:
    pq.write_table(rows(5, 1), tmp_path / "x.parquet", use_deprecated_int96_timestamps=True)
    found = listing(source(), tmp_path)
    assert found.columns.field("at").type == TIMESTAMP
    assert found.splits["event_max_us"].to_pylist() == [NOON_US + 5 * 60_000_000]


def test_int96_holds_times_that_nanoseconds_can_not(tmp_path: Path) -> None:
    times = pa.array([FAR, EARLY], TIMESTAMP)
    table = pa.table({"id": [1, 2], "at": times})
    pq.write_table(table, tmp_path / "x.parquet", use_deprecated_int96_timestamps=True)
    splits = listing(source(), tmp_path).splits
    found = [splits[name].to_pylist() for name in ("event_min_us", "event_max_us")]
    assert found == [[times[1].value], [times[0].value]]


def test_nanoseconds_are_cut_off_also_before_1970() -> None:
    values = pa.chunked_array([pa.array([1999, -1, None], pa.timestamp("ns", "UTC"))])
    assert microseconds(values).to_pylist() == [1, -1, None]


def test_an_empty_parquet_file_is_a_split_without_a_time(tmp_path: Path) -> None:
    pq.write_table(rows(), tmp_path / "a.parquet")
    pq.write_table(rows(1), tmp_path / "b.parquet")
    found = listing(source(), tmp_path).splits
    assert found["rows"].to_pylist() == [1, 0]
    assert found["event_min_us"].to_pylist()[1] is None


def test_hidden_files_and_those_of_other_writers_are_left_out(tmp_path: Path) -> None:
    for name in ("day=1/a.parquet", "day=1/_b.parquet", "_temporary/c.parquet", ".d.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(rows(1), tmp_path / name)
    found = listing(source("**/*.parquet"), tmp_path).splits
    assert [Path(path).name for path in found["path"].to_pylist()] == ["a.parquet"]


def test_a_folder_stands_for_all_files_below_it(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    pq.write_table(rows(1), tmp_path / "in" / "deep" / "a.parquet")
    assert len(listing(source("in"), tmp_path).splits) == 1


def test_a_folder_with_glob_characters_in_its_name_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "a[1]"
    folder.mkdir()
    pq.write_table(rows(1), folder / "x.parquet")
    assert len(listing(source(), folder).splits) == 1


def test_no_match_is_told_with_the_glob_and_the_folder(tmp_path: Path) -> None:
    text = refusal(tmp_path, source("nothing/*.parquet"))
    assert "no file matches nothing/*.parquet" in text
    assert str(tmp_path) in text


def test_a_corrupt_file_is_named(tmp_path: Path) -> None:
    pq.write_table(rows(1), tmp_path / "good.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 this is no footer PAR1")
    assert "bad.parquet can't be read as Parquet" in refusal(tmp_path, source())


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    pq.write_table(rows(*range(100)), tmp_path / "cut.parquet")
    whole = (tmp_path / "cut.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    assert "cut.parquet can't be read as Parquet" in refusal(tmp_path, source())


@pytest.mark.parametrize("process_files", [10, 1])
def test_a_damaged_footer_is_named_however_many_files_there_are(
    tmp_path: Path, process_files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "PROCESS_FILES", process_files)
    for number in range(5):
        pq.write_table(rows(number), tmp_path / f"{number}.parquet")
    assert len(listing(source(), tmp_path).splits) == 5
    whole = (tmp_path / "3.parquet").read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    damaged = whole[: -8 - length] + b"\xff" * length + whole[-8:]
    (tmp_path / "3.parquet").write_bytes(damaged)
    assert "3.parquet can't be read as Parquet" in refusal(tmp_path, source())


def test_files_of_different_columns_are_shown_side_by_side(tmp_path: Path) -> None:
    pq.write_table(rows(1), tmp_path / "a.parquet")
    other = rows(1).set_column(0, "id", pa.array(["x"])).append_column("b", pa.array([1]))
    pq.write_table(other, tmp_path / "b.parquet")
    text = refusal(tmp_path, source())
    assert "id: bigint | string" in text
    assert "b: (missing) | bigint" in text


def test_only_declared_columns_count(tmp_path: Path) -> None:
    pq.write_table(rows(1).append_column("extra", pa.array([1])), tmp_path / "a.parquet")
    pq.write_table(rows(2), tmp_path / "b.parquet")
    found = listing(source(schema=COLUMNS), tmp_path)
    assert names_and_types(found.columns) == COLUMNS


def test_a_missing_event_time_is_told_with_the_columns_there_are(tmp_path: Path) -> None:
    pq.write_table(rows(1).drop(["at"]), tmp_path / "a.parquet")
    text = refusal(tmp_path, source())
    assert "`event_time: at` is not in" in text
    assert "which has the columns id." in text


def test_an_event_time_that_is_a_number_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": [1]}), tmp_path / "a.parquet")
    assert "of type bigint" in refusal(tmp_path, source())


def test_a_storage_that_is_not_known_is_refused(tmp_path: Path) -> None:
    text = refusal(tmp_path, source("ftp://host/in/*.parquet"))
    assert "the scheme ftp is not supported" in text


def json_lines(*minutes: int) -> str:
    return "".join(
        f'{{"id": {m}, "at": "{NOON + timedelta(minutes=m):%Y-%m-%dT%H:%M:%SZ}"}}\n'
        for m in minutes
    )


@needs("text_files")
def test_json_lines_are_sampled_at_both_ends_and_never_above_the_true_end(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json_lines(*range(60_000)))
    assert (tmp_path / "a.json").stat().st_size > 2 << 20
    (tmp_path / "b.json").write_text(json_lines(3, 1, 2))
    found = listing(json_source(), tmp_path)
    by_name = {Path(split["path"]).name: split for split in found.splits.to_pylist()}
    assert by_name["a.json"]["event_min_us"] == NOON_US
    assert by_name["a.json"]["event_max_us"] == NOON_US + 59_999 * 60_000_000
    assert by_name["b.json"]["event_max_us"] == NOON_US + 3 * 60_000_000
    assert not found.exact


@needs("text_files")
def test_compressed_json_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(json_lines(4, 9).encode()))
    split = listing(json_source("*.gz"), tmp_path).splits.to_pylist()[0]
    assert split["event_max_us"] == NOON_US + 9 * 60_000_000


@needs("text_files")
@pytest.mark.parametrize("bad", ["not json\n", '{"id": "x", "at": "2024-01-01T00:00:00Z"}\n'])
def test_json_that_does_not_fit_is_named(tmp_path: Path, bad: str) -> None:
    (tmp_path / "good.json").write_text(json_lines(1))
    (tmp_path / "bad.json").write_text(json_lines(1) + bad)
    assert "bad.json, byte 40: " in refusal(tmp_path, json_source())


def test_files_that_changed_since_the_plan_are_named(tmp_path: Path) -> None:
    for name in "abc":
        pq.write_table(rows(1), tmp_path / f"{name}.parquet")
    splits = listing(source(), tmp_path).splits
    assert changed_splits(splits, STORES) == []
    (tmp_path / "a.parquet").unlink()
    os.utime(tmp_path / "b.parquet", ns=(1, 1))
    changed = changed_splits(splits, STORES)
    assert [text.removeprefix(f"{tmp_path}/") for text in changed] == [
        "a.parquet is missing",
        "b.parquet was rewritten",
    ]


def test_a_folder_that_vanished_since_the_plan_is_told_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in "ab":
        pq.write_table(rows(1), tmp_path / "in" / f"{name}.parquet")
    splits = listing(source("in"), tmp_path).splits
    shutil.rmtree(tmp_path / "in")
    assert changed_splits(splits, STORES) == [
        f"{tmp_path}/in/{name}.parquet is missing" for name in "ab"
    ]


@needs("text_files")
def test_an_empty_file_is_no_parquet_and_no_row_of_json(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    assert "a.parquet can't be read as Parquet" in refusal(tmp_path, source())
    (tmp_path / "a.json").touch()
    (tmp_path / "b.json").write_text(json_lines(1))
    found = listing(json_source(), tmp_path).splits.to_pylist()
    assert [split["event_min_us"] is None for split in found] == [False, True]


@pytest.mark.parametrize("path", ["lake/**/*.parquet", "lake/*", "lake", "*/out/*/*.parquet"])
def test_globs_that_would_match_the_table_are_refused_before_it_is_there(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / "lake" / "in").mkdir(parents=True)
    pq.write_table(rows(1), tmp_path / "lake" / "in" / "a.parquet")

    def planned(target: str) -> FileListing:
        sink = {"path": target, "mode": "append", "key": ["id"], "partition_by": ["day"]}
        declared = source(path).model_dump(include={"type", "name", "path", "format"})
        loaded = minimal_pipeline(tmp_path, declared, sink=sink)
        return list_source(loaded, loaded.pipeline.bounded_files[0])

    with pytest.raises(InputError, match=f"matches files of {tmp_path}/lake/out, the table that"):
        planned("lake/out")
    if path != "*/out/*/*.parquet":
        assert planned("out").splits.num_rows == 1
