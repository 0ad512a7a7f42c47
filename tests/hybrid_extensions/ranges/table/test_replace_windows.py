"""All windows of a range replaced, whoever wrote them, in one commit."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.ranges.table.event_range import Range
from hybrid_extensions.ranges.table.replace_range import Replaced, Replacement
from sources.storage.folder import Folder
from tests.properties import examples

BEGIN = datetime(2024, 3, 1, tzinfo=UTC)


def replacement(folder: Path, since: int, until: int) -> Replacement:
    """The replacement of the windows that start in hours of a table by those of another one."""
    hours = [BEGIN + timedelta(hours=hour) for hour in (since, until)]
    return Replacement(
        table=Folder(folder / "t"),
        side=Folder(folder / "side"),
        where=Range("window", hours[0], hours[1], "start"),
        history=None,
        key=["window"],
        transaction="range-1",
        scratch=Folder(folder / "scratch"),
        has_others=True,
    )


def windows_of(starts: dict[int, str]) -> pa.Table:
    """Windows of two hours by the hour that they start at, with a value each."""
    begins = [BEGIN + timedelta(hours=start) for start in starts]
    ends = [begin + timedelta(hours=2) for begin in begins]
    kind = pa.timestamp("us", "UTC")
    window = pa.StructArray.from_arrays(
        [pa.array(begins, kind), pa.array(ends, kind)], names=["start", "end"]
    )
    return pa.table({"window": window, "v": pa.array(starts.values(), pa.string())})


def seen_windows(path: Path) -> dict[int, str]:
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    hours_of = [(row["window"]["start"] - BEGIN) // timedelta(hours=1) for row in rows]
    assert len(set(hours_of)) == len(rows)
    return dict(zip(hours_of, [row["v"] for row in rows], strict=True))


@examples(15)
@given(
    st.dictionaries(st.integers(0, 12), st.sampled_from("ab"), min_size=1),
    st.dictionaries(st.integers(0, 12), st.sampled_from("xy")),
    st.integers(1, 3),
    st.integers(0, 12),
    st.integers(1, 12),
)
def test_all_windows_that_start_in_the_range_are_replaced_whoever_wrote_them(
    tmp_path_factory: pytest.TempPathFactory,
    there: dict[int, str],
    made: dict[int, str],
    files: int,
    since: int,
    length: int,
) -> None:
    folder, until = tmp_path_factory.mktemp("w"), since + length
    for at in range(files):
        if part := dict(list(there.items())[at::files]):
            write_deltalake(folder / "t", windows_of(part), mode="append")
    # Parts of windows outside of the range, too, which are not those of the table.
    write_deltalake(folder / "side", windows_of(made))
    done = replacement(folder, since, until).run(lambda _: None)
    inside = range(since, until)
    old = {start: v for start, v in there.items() if start in inside}
    new = {start: v for start, v in made.items() if start in inside}
    assert done == Replaced(len(old), len(new), 0)
    kept = {start: v for start, v in there.items() if start not in inside}
    assert seen_windows(folder / "t") == {**kept, **new}


def test_merges_that_come_first_again_and_again_are_kept_out_in_the_end(tmp_path: Path) -> None:
    path, side = tmp_path / "t", tmp_path / "side"
    write_deltalake(path, windows_of({0: "old", 9: "open"}))
    write_deltalake(side, windows_of({0: "new"}))
    turns: list[str] = []
    versions = iter(range(100))

    @contextmanager
    def turn() -> Iterator[None]:
        turns.append("taken")
        try:
            yield
        finally:
            turns.append("given")

    def merge(_: object) -> None:
        """A merge that rewrites the only file, unless it has to wait."""
        if turns.count("taken") == turns.count("given"):
            rows = windows_of({**seen_windows(path), 9: f"open {next(versions)}"})
            write_deltalake(path, rows, mode="overwrite")

    done = replace(replacement(tmp_path, 0, 1), turn=turn).run(merge)
    assert done == Replaced(1, 1, 0)
    assert seen_windows(path) == {0: "new", 9: "open 1"}


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.hybrid_extensions.ranges.table.test_replace_windows import replacement

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

replacement(Path(sys.argv[1]), 1, 3).run(die if sys.argv[2] == "before" else lambda _: None)
die()
"""


@pytest.mark.crash
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_leaves_the_table_as_before_or_with_the_whole_range(
    tmp_path: Path, when: str
) -> None:
    before = dict.fromkeys(range(5), "old")
    write_deltalake(tmp_path / "t", windows_of({0: "old", 1: "old", 2: "old"}))
    write_deltalake(tmp_path / "t", windows_of({3: "old", 4: "old"}), mode="append")
    write_deltalake(tmp_path / "side", windows_of({1: "new", 2: "new", 3: "part"}))
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path, when], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    whole = {**before, 1: "new", 2: "new"}
    assert seen_windows(tmp_path / "t") == (before if when == "before" else whole)
    again = replacement(tmp_path, 1, 3).run(lambda _: None)
    assert again == (Replaced(2, 2, 0) if when == "before" else None)
    assert seen_windows(tmp_path / "t") == whole
