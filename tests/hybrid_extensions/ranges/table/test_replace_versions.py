"""The latest versions in a range replaced in a table merged by key, or refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.ranges.table.event_range import Range
from hybrid_extensions.ranges.table.replace_range import Replaced
from hybrid_extensions.ranges.table.replace_versions import VersionsReplacement
from sources.errors import StateError
from sources.storage.folder import Folder
from tests.properties import examples

BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
ORDER = ("major", "minor")


class Version(NamedTuple):
    """A version of a row: its key in two parts, one of them may be null; its order; its hour."""

    id: int
    part: str | None
    order: tuple[int | None, int]
    hour: int
    value: str


def table(rows: Iterable[Version]) -> pa.Table:
    every = list(rows)
    return pa.table(
        {
            "id": pa.array([row.id for row in every], pa.int64()),
            "part": pa.array([row.part for row in every], pa.string()),
            "major": pa.array([row.order[0] for row in every], pa.int64()),
            "minor": pa.array([row.order[1] for row in every], pa.int64()),
            "at": pa.array(
                [BEGIN + timedelta(hours=row.hour) for row in every], pa.timestamp("us", "UTC")
            ),
            "v": pa.array([row.value for row in every], pa.string()),
        }
    )


def rank(row: Version) -> tuple[bool, int, int]:
    """Null sorts first."""
    major, minor = row.order
    return major is not None, major or 0, minor


def latest(rows: Iterable[Version]) -> dict[tuple[int, str | None], Version]:
    """The latest version of each key: what a table merged by key has."""
    found: dict[tuple[int, str | None], Version] = {}
    for row in sorted(rows, key=rank):
        found[row.id, row.part] = row
    return found


def seen(path: Path) -> dict[tuple[int, str | None], Version]:
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    versions = [
        Version(
            row["id"],
            row["part"],
            (row["major"], row["minor"]),
            (row["at"] - BEGIN) // timedelta(hours=1),
            row["v"],
        )
        for row in rows
    ]
    found = {(row.id, row.part): row for row in versions}
    assert len(found) == len(versions), "a key is there once"
    return found


def replace(
    folder: Path, made: Iterable[Version], since: int, until: int, order: Sequence[str] = ORDER
) -> Replaced | None:
    rows = table(latest(made).values())
    if rows.num_rows:
        write_deltalake(folder / "side", rows)
    return VersionsReplacement(
        table=Folder(folder / "t"),
        side=Folder(folder / "side") if rows.num_rows else None,
        where=Range("at", BEGIN + timedelta(hours=since), BEGIN + timedelta(hours=until)),
        history=None,
        key=["id", "part"],
        transaction="range-1",
        scratch=Folder(folder / "scratch"),
        order=order,
    ).run(lambda _: None)


def write(folder: Path, rows: Iterable[Version], files: int) -> None:
    every = list(latest(rows).values())
    for at in range(files):
        write_deltalake(folder / "t", table(every[at::files]), mode="append")


keys = st.tuples(st.integers(0, 3), st.sampled_from([None, "a"]))
orders = st.tuples(st.sampled_from([None, 1, 2]), st.integers(0, 4))
# By key and order: versions are told apart by their order.
histories = st.dictionaries(st.tuples(keys, orders), st.integers(0, 8), min_size=1, max_size=20)


@examples(40)
@given(histories, st.data(), st.integers(0, 8), st.integers(1, 8), st.integers(1, 3))
def test_the_table_has_the_latest_version_of_each_key_or_is_as_before(
    tmp_path_factory: pytest.TempPathFactory,
    before: dict[tuple[tuple[int, str | None], tuple[int | None, int]], int],
    data: st.DataObject,
    since: int,
    length: int,
    files: int,
) -> None:
    """Versions in the range were corrected, removed, added; all others are as they were."""
    folder, inside = tmp_path_factory.mktemp("v"), range(since, since + length)
    old = [Version(*key, order, hour, "old") for (key, order), hour in before.items()]
    outside = [row for row in old if row.hour not in inside]
    numbers = data.draw(st.sets(st.integers(0, 20)))
    made = [
        row._replace(value="new")
        for at, row in enumerate(row for row in old if row.hour in inside)
        if at not in numbers
    ]
    known = {(key, order) for key, order in before}
    for key, order in data.draw(st.sets(st.tuples(keys, orders), max_size=4)) - known:
        made.append(Version(*key, order, since, "added"))
    write(folder, old, files)
    expected = latest([*outside, *made])
    try:
        replace(folder, made, since, since + length)
    except StateError:
        now = latest(old)
        assert seen(folder / "t") == now, "nothing was replaced"
        fresh = latest(made)
        assert any(
            key not in fresh or rank(fresh[key]) < rank(row)
            for key, row in now.items()
            if row.hour in inside
        ), "what is refused is a version that would have to come back"
    else:
        assert seen(folder / "t") == expected


def version(key: int, order: int, hour: int, value: str = "old") -> Version:
    return Version(key, None, (1, order), hour, value)


def test_newer_versions_stay_and_are_counted(tmp_path: Path) -> None:
    write(tmp_path, [version(1, 1, 2), version(2, 9, 7), version(3, 1, 0)], 2)
    made = [version(key, 5, 2, "new") for key in (1, 2, 3, 4)]
    assert replace(tmp_path, made, 1, 4) == Replaced(removed=2, written=3, kept_live=1)
    assert {row.id: row.value for row in seen(tmp_path / "t").values()} == {
        1: "new",
        2: "old",
        3: "new",
        4: "new",
    }


def test_versions_may_be_ordered_by_the_event_time_itself(tmp_path: Path) -> None:
    write(tmp_path, [version(1, 1, 2), version(2, 1, 7), version(3, 1, 0)], 1)
    made = [version(key, 1, 2, "new") for key in (1, 2, 3)]
    assert replace(tmp_path, made, 1, 4, ["at"]) == Replaced(removed=2, written=2, kept_live=1)


def test_versions_that_the_files_lack_are_refused_with_one_of_them(tmp_path: Path) -> None:
    write(tmp_path, [version(1, 1, 2), version(2, 1, 2), version(3, 1, 6)], 2)
    with pytest.raises(StateError) as refused:
        replace(tmp_path, [version(1, 1, 2, "new")], 1, 4)
    assert refused.value.message.startswith(
        "1 row of the table has its latest version in the range (such as id: 2, part: None)"
    )
    assert "hybrid rerun P" in refused.value.hint
    assert {row.value for row in seen(tmp_path / "t").values()} == {"old"}
    with pytest.raises(StateError, match=r"^2 rows of the table have their latest version"):
        replace(tmp_path, [], 1, 4)
