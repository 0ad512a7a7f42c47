"""Which files globs match, and how little is looked at to tell."""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.audit.readers.folder_values import values_in
from sources.config.source.file_source import FileSource
from sources.errors import InputError, UnavailableError
from sources.files.listing.source_listing import list_splits
from sources.storage import base
from sources.storage.base import Children, File, LocalStorage
from sources.storage.folder_partitions import (
    FolderTime,
    partition_from,
    partition_of,
    typed_value,
    values_of,
)
from sources.storage.listing import find_files, match_files, parse_glob, would_match
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.properties import examples

STORES = Stores(S3Settings())
names = st.sampled_from(["a", "b", "ab", "_c", ".d", "x=1"])
trees = st.lists(st.lists(names, min_size=1, max_size=4), max_size=12)
parts = st.sampled_from(["a", "b", "*", "**", "a*", "?", "[ab]", "x=1"])


@examples(150)
@given(trees, st.lists(parts, min_size=1, max_size=4))
def test_globs_match_what_pythons_own_do(
    tmp_path_factory: pytest.TempPathFactory, tree: list[list[str]], glob: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    for path in tree:
        file = folder.joinpath(*path)
        if all(not up.is_file() for up in file.parents) and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    pattern = "/".join(glob)
    expected = set()
    for match in folder.glob(pattern):
        for file in [match] if match.is_file() else match.rglob("*"):
            hidden = any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)
            if file.is_file() and not hidden:
                expected.add(str(file))
    try:
        found = find_files("s", [pattern], folder, STORES)["path"].to_pylist()
    except InputError:
        found = []
    assert sorted(expected) == found
    # Without a look at the folder; a path without wildcards names a folder.
    files = {str(each) for each in folder.rglob("*") if each.is_file()} - {str(folder / pattern)}
    told = {each for each in files if would_match(pattern, folder, each)}
    assert told == files & expected


def test_folders_that_no_glob_can_match_are_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("in/day=1/a.parquet", "in/other/deep/b.parquet", "aside/c.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    listed: list[str] = []
    children = LocalStorage.children

    def spied(self: LocalStorage, folder: str) -> Children:
        listed.append(os.path.relpath(folder, tmp_path))
        return children(self, folder)

    monkeypatch.setattr(LocalStorage, "children", spied)
    find_files("s", ["in/day=*/*.parquet"], tmp_path, STORES)
    # Above them it is only looked for what makes a folder one of a table.
    logs = {"_delta_log", ".hoodie", "metadata"}
    assert sorted(each for each in listed if each.rpartition("/")[2] not in logs) == [
        "in",
        "in/day=1",
    ]


def files(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("{}")
    return folder


def during(
    monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[], Callable[[], object] | None]
) -> None:
    """Let something change whenever a folder of a name is listed; what it returns comes after."""
    children = LocalStorage.children

    def listed(self: LocalStorage, folder: str) -> Children:
        later = change() if folder.endswith(f"/{name}") else None
        found = children(self, folder)
        if later is not None:
            later()
        return found

    monkeypatch.setattr(LocalStorage, "children", listed)


@pytest.mark.parametrize("listed", ["day=1", "in"])
def test_a_partition_that_is_exchanged_while_its_folder_is_listed_is_found(
    listed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path / "in/day=0", "a.json")
    place, old = files(tmp_path / "in/day=1", "b.json", "c.json"), tmp_path / "old"
    new = files(tmp_path / "new", "b.json", "c.json")

    def exchange() -> Callable[[], object] | None:
        if old.exists():
            return None
        place.rename(old)
        return lambda: new.rename(place)

    during(monkeypatch, listed, exchange)
    assert len(find_files("s", ["in/*/*.json"], tmp_path, STORES)) == 3


def test_files_that_are_rotated_while_they_are_listed_are_all_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path / "in", "app.log", "app.log.1")
    described = base._described

    def rotate(path: str, status: os.stat_result) -> File:
        # As logrotate, once: after names were read, before the next file is looked at.
        if not (tmp_path / "in/app.log.2").exists():
            for new, old in ((".2", ".1"), (".1", "")):
                (tmp_path / f"in/app.log{old}").rename(tmp_path / f"in/app.log{new}")
            (tmp_path / "in/app.log").touch()
        return described(path, status)

    monkeypatch.setattr(base, "_described", rotate)
    assert len(find_files("s", ["in/app.log*"], tmp_path, STORES)) == 3


def test_a_folder_that_is_emptied_while_it_is_listed_is_refused_for_a_plan_and_not_for_later_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = files(tmp_path / "in", *(f"{number}.json" for number in range(20)))

    def remove() -> Callable[[], object]:
        return lambda: min(folder.iterdir()).unlink()

    during(monkeypatch, "in", remove)
    with pytest.raises(UnavailableError, match=f"files or folders in {folder} were renamed"):
        find_files("s", ["in/*.json"], tmp_path, STORES)
    assert len(match_files("s", ["in/*.json"], tmp_path, STORES)) == 11


def test_files_that_are_only_added_while_a_folder_is_listed_are_no_reason_to_list_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, numbers = files(tmp_path / "in"), itertools.count()

    def add() -> None:
        (folder / f"{next(numbers)}.json").touch()

    during(monkeypatch, "in", add)
    assert len(find_files("s", ["in/*.json"], tmp_path, STORES)) == 2


def test_a_file_that_several_globs_match_is_found_once(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    found = find_files("s", ["*.json", "a.*", "a.json"], tmp_path, STORES)
    assert found["path"].to_pylist() == [str(tmp_path / "a.json")]
    assert found["size"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("pattern", "base", "rest"),
    [
        ("in/*.json", "/w/in", ("*.json",)),
        ("../other/x.json", "/other/x.json", ()),
        ("/abs/**", "/abs", ("**",)),
        ("file:///abs/*", "/abs", ("*",)),
        ("s3://bucket/a/b*/c", "s3://bucket/a", ("b*", "c")),
        ("s3a://bucket/*", "s3://bucket", ("*",)),
        ("s3://bucket", "s3://bucket", ()),
    ],
)
def test_a_glob_is_a_base_and_parts_with_magic(
    pattern: str, base: str, rest: tuple[str, ...]
) -> None:
    glob = parse_glob(pattern, Path("/w"))
    assert (glob.base, glob.parts) == (base, rest)


# What the names of folders say.


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "folder", "low", "after"),
    [
        ("dt=%Y-%m-%d", "/in/dt=2024-02-29", "2024-02-29", "2024-03-01"),
        ("dt=%Y-%m-%d/hour=%H", "/in/dt=2024-01-31/hour=23", "2024-01-31T23", "2024-02-01"),
        ("%Y/%m", "/in/2023/12/parts", "2023-12-01", "2024-01-01"),
        ("%Y", "/in/2024", "2024-01-01", "2025-01-01"),
        ("%Y%m%dT%H%M", "/20240101T0005", "2024-01-01T00:05", "2024-01-01T00:06"),
    ],
)
def test_a_folder_stands_for_a_range_of_time(
    pattern: str, folder: str, low: str, after: str
) -> None:
    assert FolderTime(pattern).range_of(folder) == (moment(low), moment(after))


@pytest.mark.parametrize("pattern", ["%d", "%Y/%d", "day", "%Y/%q"])
def test_a_pattern_without_a_whole_time_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="must contain %Y"):
        FolderTime(pattern)


def test_partition_values_are_those_of_the_folder_names() -> None:
    folder = "/in/x=1/day=2024-01-01/c=a%2Fb/n=__HIVE_DEFAULT_PARTITION__"
    partition = partition_of(folder, ["day", "c", "n"])
    assert values_of(partition) == {"day": "2024-01-01", "c": "a/b", "n": None}


def test_a_name_that_is_no_text_is_refused_with_its_bytes(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.csv")).write_text("")
    with pytest.raises(InputError, match=r"no UTF-8 text, .*: a\\xff\.csv"):
        find_files("h", ["*.csv"], tmp_path, STORES)


def test_escapes_in_folder_names_are_bytes_of_utf8_or_else_characters() -> None:
    texts = {"M%C3%BCnchen": "München", "%FF": "ÿ", "%FE": "þ", "ü%FF": "üÿ", "a+b%zz": "a+b%zz"}
    for text, value in texts.items():
        assert values_of(partition_of(f"/in/p={text}", ["p"])) == {"p": value}
        assert values_in(f"/in/p={text}/a.csv", ["p"]) == {"p": value}
    assert values_of(partition_of("/in/a%3Ab=1", ["a:b"])) == {"a:b": "1"}
    assert values_in("/in/a%3Ab=1/a.csv", ["a:b"]) == {"a:b": "1"}
    assert values_of(partition_from({"a=b/%41": "x"})) == {"a=b/%41": "x"}


def test_values_in_folder_names_are_what_they_say() -> None:
    assert typed_value("1.5", pa.decimal128(6, 2)).as_py() == Decimal("1.50")
    assert typed_value("1", pa.bool_()).as_py() is True
    assert typed_value("inf", pa.float64()).as_py() == math.inf


@pytest.mark.parametrize(
    ("folder", "told"), [("/in/p=", "an empty value"), ("/in/p=1/p=2", "two values")]
)
def test_a_folder_without_one_value_of_a_partition_column_is_refused(
    folder: str, told: str
) -> None:
    with pytest.raises(InputError, match=f"has {told} for the partition column `p`"):
        partition_of(folder, ["p"])
    assert partition_of("/in/p=1/p=1", ["p"]) == "p=1"


def hive(folder: Path, **days: list[int]) -> None:
    for name, minutes in days.items():
        path = folder / "in" / name.replace("_", "-").replace("day", "day=2024-01")
        path.mkdir(parents=True)
        at = pa.array([m * 60_000_000 for m in minutes], pa.int64())
        micros = at.cast(pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"id": minutes, "at": micros}), path / "x.parquet")


def source(**changes: Any) -> FileSource:
    document = {"type": "files", "name": "h", "path": "in/**/*.parquet", "format": "parquet"}
    return FileSource.model_validate({**document, **changes})


def splits(declared: FileSource, folder: Path) -> pa.Table:
    files = find_files("h", declared.patterns, folder, STORES)
    return list_splits(declared, "at", files, STORES).splits


DAY = 24 * 60
JAN_1 = 19723 * DAY


def test_folders_outside_of_the_time_range_are_not_opened(tmp_path: Path) -> None:
    hive(tmp_path, day_01=[JAN_1], day_02=[JAN_1 + DAY], day_03=[JAN_1 + 2 * DAY])
    (tmp_path / "in/day=2024-01-01/broken.parquet").write_text("opened")
    wanted = {"since": "2024-01-02T00:00:00Z", "until": "2024-01-03T00:00:00Z"}
    found = splits(source(folder_time="day=%Y-%m-%d", time_range=wanted), tmp_path)
    assert [Path(path).parent.name for path in found["path"].to_pylist()] == ["day=2024-01-02"]


def test_statistics_leave_out_files_where_folders_say_nothing(tmp_path: Path) -> None:
    hive(tmp_path, day_01=[JAN_1], day_02=[JAN_1 + DAY], day_03=[JAN_1 + 2 * DAY, JAN_1])
    found = splits(source(time_range={"since": "2024-01-02T00:01:00Z"}), tmp_path)
    assert [Path(path).parent.name for path in found["path"].to_pylist()] == ["day=2024-01-03"]


def test_a_time_range_without_a_file_is_refused(tmp_path: Path) -> None:
    hive(tmp_path, day_01=[JAN_1])
    with pytest.raises(InputError, match="no file holds rows of its `time_range`, since 2030"):
        splits(source(time_range={"since": "2030-01-01T00:00:00Z"}), tmp_path)


def test_a_folder_that_is_named_otherwise_is_refused(tmp_path: Path) -> None:
    hive(tmp_path, day_01=[JAN_1])
    wanted = {"since": "2024-01-02T00:00:00Z"}
    with pytest.raises(InputError, match="does not match `folder_time: dt=%Y`"):
        splits(source(folder_time="dt=%Y", time_range=wanted), tmp_path)


def test_partition_columns_are_typed_by_their_declaration(tmp_path: Path) -> None:
    hive(tmp_path, day_01=[JAN_1])
    declared = source(partitions={"day": "date"})
    files = find_files("h", declared.patterns, tmp_path, STORES)
    found = list_splits(declared, "at", files, STORES)
    assert found.columns.field("day").type == pa.date32()
    (text,) = found.splits["partition"].to_pylist()
    assert str(typed_value(values_of(text)["day"], pa.date32()).as_py()) == "2024-01-01"


def test_a_partition_value_that_does_not_fit_is_named(tmp_path: Path) -> None:
    hive(tmp_path, day_01=[JAN_1])
    with pytest.raises(
        InputError, match=r"`2024-01-01`, by folder the value of `day`, is not a valid int"
    ):
        splits(source(partitions={"day": "int"}), tmp_path)


def test_a_partition_column_that_no_folder_tells_is_refused(tmp_path: Path) -> None:
    hive(tmp_path, day_01=[JAN_1])
    with pytest.raises(InputError, match="has no value for the partition column `hour`"):
        splits(source(partitions={"hour": "int"}), tmp_path)


def test_a_file_that_its_writer_renames_hides_no_other(tmp_path: Path) -> None:
    """Between its name being read and its size, the file of the old name is gone."""
    whole = {str(tmp_path / f"part-{number}.parquet") for number in range(20)}
    for each in whole:
        Path(each).write_bytes(b"rows")
    is_over = threading.Event()

    def write() -> None:
        while not is_over.is_set():
            for number in range(20):
                (tmp_path / f"late-{number}.tmp").write_bytes(b"rows")
            for number in range(20):
                (tmp_path / f"late-{number}.tmp").rename(tmp_path / f"late-{number}.parquet")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(1000):
            assert whole <= set(LocalStorage().children(str(tmp_path)).files["path"].to_pylist())
    finally:
        is_over.set()
        writer.join()
