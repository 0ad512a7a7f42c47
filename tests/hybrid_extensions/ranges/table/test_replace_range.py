"""A range of history in a table, replaced beside live rows, in one commit."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.ranges.table.event_range import Range
from hybrid_extensions.ranges.table.replace_range import Replaced, Replacement
from sources.errors import InputError, StateError
from sources.storage.folder import Folder
from spark_jobs.table.history_files import NO_HISTORY, HistoryFiles
from tests.properties import examples

BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
Rows = dict[int, tuple[int, str]]  # id: (hour since the beginning, value)


def table(rows: Rows) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(rows, pa.int64()),
            "at": pa.array([BEGIN + timedelta(hours=at) for at, _ in rows.values()]),
            "day": [f"{BEGIN + timedelta(hours=at):%Y-%m-%d}" for at, _ in rows.values()],
            "v": pa.array([value for _, value in rows.values()], pa.string()),
        }
    )


class Target:
    """A table with history, then live rows."""

    def __init__(self, folder: Path, history: list[Rows], live: list[Rows], by: str | None) -> None:
        self.path, self.folder, self.by, self.count = folder / "t", folder, by, 0
        for rows in history:
            write_deltalake(self.path, table(rows), mode="append", partition_by=by)
        paths = pa.table(DeltaTable(self.path).get_add_actions())["path"]
        self.history = set(paths.to_pylist())
        self.gone: set[str] = set()
        for rows in live:
            write_deltalake(self.path, table(rows), mode="append")

    def replacement(self, since: int, until: int, rows: Rows) -> Replacement:
        self.count += 1
        side = self.folder / f"side-{self.count}"
        if rows:
            write_deltalake(side, table(rows), partition_by=self.by)
        return Replacement(
            table=Folder(self.path),
            side=Folder(side) if rows else None,
            where=Range("at", BEGIN + timedelta(hours=since), BEGIN + timedelta(hours=until)),
            history=HistoryFiles(self.history, self.gone),
            key=["id"],
            transaction=f"range-{self.count}",
            scratch=Folder(self.folder / f"scratch-{self.count}"),
        )

    def replace(self, since: int, until: int, rows: Rows) -> Replaced | None:
        return self.replacement(since, until, rows).run(self.gone.update)

    def seen(self) -> Rows:
        rows = DeltaTable(self.path).to_pyarrow_table().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: ((row["at"] - BEGIN) // timedelta(hours=1), row["v"]) for row in rows}


def hours(ids: range, value: str) -> Rows:
    return {n: (n, value) for n in ids}


@pytest.mark.parametrize("by", [None, "day"])
def test_history_of_the_range_is_replaced_and_everything_else_stays(
    tmp_path: Path, by: str | None
) -> None:
    late = {1001: (5, "live"), 1002: (30, "live")}
    history = [hours(range(10), "old"), hours(range(10, 48), "old")]
    target = Target(tmp_path, history, [late], by)
    files = {*DeltaTable(target.path).file_uris()}
    done = target.replace(4, 12, {4: (4, "new"), 99: (7, "new")})
    assert done == Replaced(removed=8, written=2, kept_live=0)
    expected = {**hours(range(4), "old"), **hours(range(12, 48), "old"), **late}
    assert target.seen() == {**expected, 4: (4, "new"), 99: (7, "new")}
    if by is None:
        assert len(files & {*DeltaTable(target.path).file_uris()}) == 1, "the live file is the same"
    # Again, over what was made before.
    assert target.replace(4, 12, {4: (4, "newer")}) == Replaced(2, 1, 0)
    assert target.seen() == {**expected, 4: (4, "newer")}


def test_what_the_live_run_delivered_is_not_doubled_by_files_that_hold_it_now(
    tmp_path: Path,
) -> None:
    target = Target(tmp_path, [hours(range(10), "old")], [{1001: (5, "live")}], None)
    done = target.replace(4, 6, {4: (4, "new"), 1001: (5, "archived")})
    assert done == Replaced(removed=2, written=1, kept_live=1)
    assert target.seen()[1001] == (5, "live")


def test_a_range_without_rows_is_emptied_and_one_that_was_empty_is_no_error(tmp_path: Path) -> None:
    target = Target(tmp_path, [hours(range(10), "old")], [], None)
    assert target.replace(4, 6, {}) == Replaced(2, 0, 0)
    version = DeltaTable(target.path).version()
    assert target.replace(4, 6, {}) == Replaced(0, 0, 0)
    assert target.seen() == {**hours(range(4), "old"), **hours(range(6, 10), "old")}
    assert target.replace(100, 101, {}) == Replaced(0, 0, 0)
    assert DeltaTable(target.path).version() == version, "nothing changed, so there is none"


def test_done_twice_it_is_done_once(tmp_path: Path) -> None:
    target = Target(tmp_path, [hours(range(10), "old")], [], None)
    again = target.replacement(4, 6, hours(range(4, 6), "new"))
    assert again.run(target.gone.update) == Replaced(2, 2, 0)
    assert again.run(target.gone.update) is None
    assert target.seen()[4] == (4, "new")


def test_rows_that_an_interrupted_attempt_has_rewritten_are_not_written_again(
    tmp_path: Path,
) -> None:
    target = Target(tmp_path, [hours(range(10), "old")], [], None)
    again = target.replacement(4, 6, hours(range(4, 6), "new"))

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        again.run(interrupt)
    assert again.run(target.gone.update) == Replaced(2, 2, 0)
    assert target.seen() == {**hours(range(10), "old"), **hours(range(4, 6), "new")}


def test_rows_that_come_in_between_stay(tmp_path: Path) -> None:
    target = Target(tmp_path, [hours(range(200), "old")], [], None)
    stop = threading.Event()
    written: Rows = {}

    def live() -> None:
        for n in range(10_000, 20_000):
            if stop.is_set():
                return
            try:
                write_deltalake(target.path, table({n: (n % 200, "live")}), mode="append")
            except CommitFailedError:
                # Unlike Spark's appends, these look at what is there.
                continue
            written[n] = (n % 200, "live")

    writer = threading.Thread(target=live)
    writer.start()
    try:
        for since in range(0, 100, 10):
            target.replace(since, since + 10, hours(range(since, since + 10), f"new{since}"))
    finally:
        stop.set()
        writer.join()
    assert written
    made = {n: (n, f"new{n // 10 * 10}") for n in range(100)}
    assert target.seen() == {**made, **hours(range(100, 200), "old"), **written}


def test_compacted_files_are_told_and_nothing_is_changed(tmp_path: Path) -> None:
    target = Target(
        tmp_path, [hours(range(5), "old"), hours(range(5, 10), "old")], [{77: (3, "live")}], None
    )
    DeltaTable(target.path).optimize.compact()
    version = DeltaTable(target.path).version()
    with pytest.raises(StateError, match="2 files of history are no longer in"):
        target.replace(4, 6, {})
    assert DeltaTable(target.path).version() == version


def test_a_table_without_the_column_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    where = Range("at", BEGIN, BEGIN + timedelta(hours=1))
    table, scratch = Folder(tmp_path / "t"), Folder(tmp_path / "s")
    one = Replacement(table, None, where, NO_HISTORY, ["id"], "x", scratch)
    with pytest.raises(InputError, match="has no column `at`"):
        one.run(lambda _: None)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("us"), BEGIN.replace(tzinfo=None)),
        (pa.date32(), BEGIN.date()),
        (pa.string(), "2024-03-01"),
        (pa.int64(), 7),
    ],
    ids=str,
)
def test_a_table_whose_column_is_no_timestamp_is_refused_as_one_without_it(
    tmp_path: Path, kind: pa.DataType, value: object
) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1], "at": pa.array([value], kind)}))
    where = Range("at", BEGIN, BEGIN + timedelta(hours=1))
    table, scratch = Folder(tmp_path / "t"), Folder(tmp_path / "s")
    one = Replacement(table, None, where, NO_HISTORY, ["id"], "x", scratch)
    with pytest.raises(InputError, match="no column `at` of type timestamp"):
        one.run(lambda _: None)


@pytest.mark.parametrize("live", [{}, {1001: (5, "live")}], ids=["history", "live"])
def test_rows_without_an_event_time_stay_and_are_not_doubled(tmp_path: Path, live: Rows) -> None:
    timeless = table({99: (0, "old")}).set_column(
        1, "at", pa.array([None], pa.timestamp("us", "UTC"))
    )
    target = Target(tmp_path, [hours(range(10), "old")], [], None)
    write_deltalake(target.path, timeless, mode="append")
    target.history.update(pa.table(DeltaTable(target.path).get_add_actions())["path"].to_pylist())
    if live:
        write_deltalake(target.path, table(live), mode="append")
    again = target.replacement(4, 6, hours(range(4, 6), "new"))
    # They are in the same files as rows of the range, and read with these.
    assert again.side is not None
    write_deltalake(again.side.url, timeless, mode="append")
    assert again.run(target.gone.update) == Replaced(2, 2, 0)
    rows = DeltaTable(target.path).to_pyarrow_table()
    assert sorted(rows["id"].to_pylist()) == sorted([*range(10), 99, *live])
    assert rows["v"].to_pylist().count("new") == 2


@pytest.mark.parametrize("year", [1, 2024, 9999])
def test_the_earliest_and_the_latest_time_are_limits_like_others(year: int) -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    at = BEGIN.replace(year=year)
    row = {side: {"at": at} for side in ("min", "max")} | {"null_count": {"at": 0}}
    whole = Range("at", first, last)
    assert whole.may_be_in(row)
    assert whole.holds_all(row)
    assert not Range("at", at, at).may_be_in(row)
    assert not Range("at", first, at).holds_all(row)


@pytest.mark.parametrize("hour", [3, 6])
def test_a_row_that_the_transform_moved_out_of_the_range_is_refused(
    tmp_path: Path, hour: int
) -> None:
    target = Target(tmp_path, [hours(range(10), "old")], [], None)
    version = DeltaTable(target.path).version()
    with pytest.raises(StateError, match=f"1 row of other times, such as 2024-03-01T0{hour}:00"):
        target.replace(4, 6, {4: (4, "new"), 5: (hour, "new")})
    assert DeltaTable(target.path).version() == version
    assert target.seen() == hours(range(10), "old")


row_sets = st.dictionaries(
    st.integers(0, 60), st.tuples(st.integers(0, 12), st.sampled_from("abc")), max_size=12
)


@examples(15)
@given(st.lists(row_sets, min_size=1, max_size=3), row_sets, st.data())
def test_any_ranges_one_after_the_other(
    tmp_path_factory: pytest.TempPathFactory, parts: list[Rows], live: Rows, data: st.DataObject
) -> None:
    history = {n: row for rows in parts for n, row in rows.items()}
    live = {n + 1000: row for n, row in live.items()}
    batches = [dict(list(history.items())[at :: len(parts)]) for at in range(len(parts))]
    target = Target(
        tmp_path_factory.mktemp("t"), [{5000: (0, "x")}, *filter(None, batches)], [live], None
    )
    expected: Rows = {5000: (0, "x"), **history}
    for _ in range(data.draw(st.integers(1, 3))):
        since = data.draw(st.integers(0, 12))
        until = data.draw(st.integers(since + 1, 14))
        kept = {n: row for n, row in expected.items() if not since <= row[0] < until}
        fresh = {
            n: (at, v)
            for n, (at, v) in data.draw(row_sets).items()
            if since <= at < until and n not in kept
        }
        target.replace(since, until, fresh)
        expected = {**kept, **fresh}
        assert target.seen() == {**expected, **live}


@pytest.mark.parametrize(
    ("live", "recomputed"),
    [(None, None), (-0.0, 0.0), (0.0, -0.0), (float("nan"), float("nan")), (1.5, 1.5)],
)
def test_a_live_row_is_recognized_by_odd_keys_as_merge_recognizes_them(
    tmp_path: Path, live: float | None, recomputed: float | None
) -> None:
    """MERGE matches null with null, NaN with NaN, and 0.0 with -0.0 (`<=>`)."""

    def row(part: float | None, value: str) -> pa.Table:
        parts, at = pa.array([part], pa.float64()), pa.array([BEGIN])
        return pa.table({"id": pa.array([1]), "part": parts, "at": at, "v": [value]})

    path, side = tmp_path / "t", tmp_path / "side"
    write_deltalake(path, row(7.0, "history"))
    history = set(pa.table(DeltaTable(path).get_add_actions())["path"].to_pylist())
    write_deltalake(path, row(live, "live"), mode="append")
    write_deltalake(side, row(recomputed, "recomputed"))
    replaced = Replacement(
        table=Folder(path),
        side=Folder(side),
        where=Range("at", BEGIN, BEGIN + timedelta(hours=1)),
        history=HistoryFiles(history, set()),
        key=["id", "part"],
        transaction="range-1",
        scratch=Folder(tmp_path / "scratch"),
    ).run(lambda _: None)
    assert replaced == Replaced(removed=1, written=0, kept_live=1)
    assert DeltaTable(path).to_pyarrow_table()["v"].to_pylist() == ["live"]
