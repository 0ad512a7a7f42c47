"""Which records of a log history holds: by the names of its files, and by two of their columns."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.held_offsets import offsets_in_files as module
from hybrid_extensions.held_offsets.offsets_in_files import held_by_columns, held_by_names
from sources.common.positions import HeldOffsets, TopicPartition
from sources.errors import InputError
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.properties import examples
from tests.services.s3_server import LOGIN, client, s3_server

_STORES = Stores(S3Settings())
ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
Pair = tuple[int | None, int | None]


def names(*files: str, rows: Sequence[int | None] | None = None) -> tuple[HeldOffsets, list[str]]:
    paths = [f"/in/{file}" for file in files]
    return without_files(*held_by_names(paths, rows or [None] * len(files)))


def without_files(held: HeldOffsets, warnings: list[str]) -> tuple[HeldOffsets, list[str]]:
    return held.model_copy(update={"beside": {}}), warnings


def write(path: Path, *groups: Sequence[Pair], kind: Any = None) -> str:
    """A file of (partition, offset) rows, in these row groups."""
    schema = pa.schema([("p", pa.int32()), ("o", kind or pa.int64()), ("id", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for group in groups:
            numbers, offsets = [pair[0] for pair in group], [pair[1] for pair in group]
            writer.write_table(pa.table([numbers, offsets, ["x"] * len(group)], schema=schema))
    return str(path)


def columns(*paths: str) -> tuple[HeldOffsets, list[str]]:
    return without_files(*held_by_columns(paths, "orders", "p", "o", _STORES))


def refusal_of_name(*files: str) -> str:
    with pytest.raises(InputError) as caught:
        names(*files)
    return str(caught.value)


def refusal_of_columns(*paths: str) -> str:
    with pytest.raises(InputError) as caught:
        columns(*paths)
    return str(caught.value)


def naive(
    rows: Sequence[tuple[int, int]],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, set[int]]]:
    after, missing = {}, {}
    for number in {number for number, _ in rows}:
        at = TopicPartition("orders", number)
        offsets = {offset for other, offset in rows if other == number}
        after[at] = max(offsets) + 1
        missing[at] = set(range(max(offsets))) - offsets
    return after, {at: some for at, some in missing.items() if some}


def spelled_out(held: HeldOffsets) -> dict[TopicPartition, set[int]]:
    for ranges in held.holes.values():
        bounds = [bound for one in ranges for bound in one]
        # Compact: not empty, ascending, and no two that one range could stand for.
        assert bounds == sorted(set(bounds))
    return {at: {n for one in some for n in range(*one)} for at, some in held.holes.items()}


def test_names_without_an_end_hold_as_many_offsets_as_their_files_have_rows() -> None:
    held, warnings = names(
        "orders+0+0000000000.parquet",
        "orders+0+0000001200.snappy.parquet",
        "orders+1+0000000007.parquet",
        rows=[1200, 300, 5],
    )
    assert held == HeldOffsets(next={ZERO: 1500, ONE: 12}, exact=False, holes={ONE: [(0, 7)]})
    assert warnings == []


def test_an_earlier_file_with_more_rows_may_reach_further() -> None:
    # A time partitioner sends the records of a partition to several files at a time.
    held, _ = names("orders+0+100.parquet", "orders+0+110.parquet", rows=[50, 2])
    assert held == HeldOffsets(next={ZERO: 150}, exact=False, holes={ZERO: [(0, 100)]})


def test_where_rows_are_not_known_nothing_is_called_a_hole() -> None:
    held, _ = names("orders+0+12.json.gz", "orders+0+14.json.gz")
    assert held == HeldOffsets(next={ZERO: 15}, exact=False, holes={})


def test_more_rows_than_there_are_offsets_are_refused() -> None:
    with pytest.raises(InputError, match="would end at offset"):
        names(f"orders+0+{2**63 - 2}.p", rows=[5])


def test_names_without_an_end_tell_holes() -> None:
    held, _ = names(
        "orders+0+20.parquet", "orders+0+0.parquet", "orders+0+10.parquet", rows=[10, 10, 4]
    )
    assert held == HeldOffsets(next={ZERO: 30}, exact=False, holes={ZERO: [(14, 20)]})


def test_names_without_an_end_tell_no_duplicatess() -> None:
    held, warnings = names("orders+0+0.parquet", "orders+0+5.parquet", rows=[10, 10])
    assert held == HeldOffsets(next={ZERO: 15}, exact=False, holes={})
    assert warnings == []


def test_names_with_an_end_are_exact_and_the_end_is_inclusive() -> None:
    held, warnings = names(
        "orders+0+0000000010+0000000019.parquet", "orders+0+0+9.parquet", "orders+1+3+3.parquet"
    )
    assert held == HeldOffsets(next={ZERO: 20, ONE: 4}, exact=True, holes={ONE: [(0, 3)]})
    assert warnings == []


def test_what_no_name_with_an_end_covers_is_a_hole() -> None:
    held, _ = names("orders+0+10+19.avro", "orders+0+30+39.avro", "orders+0+21+24.avro")
    assert held.next == {ZERO: 40}
    assert held.holes == {ZERO: [(0, 10), (20, 21), (25, 30)]}


def test_a_file_name_without_an_end_offset_makes_all_inexact_but_holes_stay_known() -> None:
    held, _ = names(
        "orders+0+0+9.parquet",
        "orders+0+20+29.parquet",
        "orders+0+10.parquet",
        "orders+1+0+9.parquet",
        "orders+1+20+29.parquet",
        rows=[10, 10, 4, 10, 10],
    )
    assert not held.exact
    assert held.next == {ZERO: 30, ONE: 30}
    assert held.holes == {ZERO: [(14, 20)], ONE: [(10, 20)]}


@pytest.mark.parametrize("count", [0, 2])
def test_overlaps_are_told_only_of_partitions_whose_names_all_have_an_end(count: int) -> None:
    held, (warning,) = names(
        "orders+0+0+9.p",
        "orders+0+8+20.p",
        "orders+0+5.p",
        "orders+1+0+9.p",
        "orders+1+8+20.p",
        rows=[10, 13, count, 10, 13],
    )
    assert held == HeldOffsets(next={ZERO: 21, ONE: 21}, exact=False, holes={})
    assert "both hold offsets 8 to 9 of topic `orders`, partition 1" in warning


def test_of_both_forms_the_further_end_counts() -> None:
    held, _ = names("orders+0+0+9.parquet", "orders+0+10.parquet", rows=[10, 7])
    assert held == HeldOffsets(next={ZERO: 17}, exact=False, holes={})
    held, _ = names("orders+0+0+9.parquet", "orders+0+5.parquet", rows=[10, 2])
    assert held == HeldOffsets(next={ZERO: 10}, exact=False, holes={})


def test_a_file_without_rows_holds_nothing_whatever_its_name_says() -> None:
    held, _ = names("orders+0+90.parquet", "orders+0+3.parquet", rows=[0, 2])
    assert held == HeldOffsets(next={ZERO: 5}, exact=False, holes={ZERO: [(0, 3)]})
    held, _ = names("orders+0+0+9.parquet", "orders+1+3.parquet", rows=[10, 0])
    assert held == HeldOffsets(next={ZERO: 10}, exact=False, holes={})
    held, _ = names(
        "orders+0+0+9.p", "orders+0+10+19.p", "orders+0+20+29.p", "orders+0+30+39.p",
        rows=[10, 0, 10, 0],
    )  # fmt: skip
    assert held == HeldOffsets(next={ZERO: 30}, exact=True, holes={ZERO: [(10, 20)]})


def test_the_files_on_both_sides_of_a_hole_are_known(tmp_path: Path) -> None:
    paths = ["t+0+20+29.p", "t+0+0+9.p", "t+0+12+15.p", "t+0+30+39.p", "t+1+4+4.p"]
    held, _ = held_by_names(paths, [None] * 5)
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    assert held.holes == {t0: [(10, 12), (16, 20)], t1: [(0, 4)]}
    assert held.beside == {t0: [(paths[1], paths[2]), (paths[2], paths[0])], t1: [("", paths[4])]}
    first = write(tmp_path / "a.parquet", [(0, 0), (0, 1), (0, 7)])
    second = write(tmp_path / "b.parquet", [(0, 4), (0, 5)])
    held, _ = held_by_columns([first, second], "orders", "p", "o", _STORES)
    assert held.holes == {ZERO: [(2, 4), (6, 7)]}
    assert held.beside == {ZERO: [(first, second), (second, first)]}


def test_topics_keep_dots_dashes_and_underscores_and_several_may_be_told() -> None:
    held, _ = names("eu.shop-1_orders.v2+3+5+6.snappy.parquet", "b+0+0+0.c000.parquet")
    assert held.next == {
        TopicPartition("eu.shop-1_orders.v2", 3): 7,
        TopicPartition("b", 0): 1,
    }


def test_folders_of_a_path_do_not_count() -> None:
    held, _ = held_by_names(["/in/a+b/year=2024/orders+0+4.parquet"], [3])
    assert held.next == {ZERO: 7}


@pytest.mark.parametrize(
    "name",
    [
        "part-00000.parquet",
        "orders+0.parquet",
        "orders+0+5",
        "orders+zero+5.parquet",
        "orders+0+-5.parquet",
        "orders+0+5+6+7.parquet",
        "+0+5.parquet",
        "or ders+0+5.parquet",
        "orders+0+٣.parquet",
        f"orders+0+{2**63 - 1}.parquet",
        f"orders+0+5+{2**63 - 1}.parquet",
    ],
)
def test_a_name_of_neither_form_is_refused_with_what_is_expected(name: str) -> None:
    text = refusal_of_name("orders+0+0.parquet", name)
    assert f"/in/{name} is not one that Kafka Connect writes" in text
    assert "`topic+partition+start.ext` or `topic+partition+start+end.ext` (end inclusive)" in text


def test_a_name_that_ends_before_it_starts_is_refused() -> None:
    text = refusal_of_name("orders+0+5+4.parquet")
    assert "/in/orders+0+5+4.parquet ends at offset 4, before its start 5" in text
    assert "topic+partition+start+end.ext" in text


def test_files_whose_names_overlap_are_told_with_what_both_hold() -> None:
    files = ("orders+0+0+9.p", "orders+0+8+20.p", "orders+1+8+20.p")
    held, warnings = names(*files, rows=[10, 13, 13])
    assert held == HeldOffsets(next={ZERO: 21, ONE: 21}, exact=True, holes={ONE: [(0, 8)]})
    # Where numbers of rows are not known, files of a partitioner look the same.
    assert names(*files) == (held.model_copy(update={"exact": False}), warnings)
    assert warnings == [
        "Files /in/orders+0+0+9.p and /in/orders+0+8+20.p both hold offsets 8 to 9 of topic"
        " `orders`, partition 0: rows of history may be duplicated (overlaps in this partition: 1)."
    ]


def test_a_file_overlaps_with_one_that_is_not_its_neighbour() -> None:
    _, (warning,) = names("orders+0+0+99.p", "orders+0+200+300.p", "orders+0+250+260.q")
    assert (
        "/in/orders+0+200+300.p and /in/orders+0+250+260.q both hold offsets 250 to 260" in warning
    )
    held, (warning,) = names("orders+0+90+95.p", "orders+0+0+99.p", "orders+0+97+98.p")
    assert "/in/orders+0+0+99.p and /in/orders+0+90+95.p" in warning
    assert "overlaps in this partition: 2" in warning
    assert held.next == {ZERO: 100}


def test_a_history_copied_twice_is_told_once_a_partition() -> None:
    files = [f"orders+{number}+{at}+{at + 9}.p" for number in (0, 1) for at in range(0, 100, 10)]
    held, warnings = held_by_names([f"/{copy}/{f}" for copy in "ab" for f in files], [10] * 40)
    assert held.holes == {}
    assert len(warnings) == 2
    assert "/a/orders+0+0+9.p and /b/orders+0+0+9.p both hold offsets 0 to 9" in warnings[0]
    assert "overlaps in this partition: 10" in warnings[1]


@examples(200)
@given(
    flushes=st.lists(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=12), min_size=1, max_size=5
    ),
    data=st.data(),
)
def test_files_of_a_partitioner_are_exact_if_none_is_missing(
    flushes: list[list[str]], data: st.DataObject
) -> None:
    files, rows, first = [], [], 0
    for flush in flushes:
        for field in sorted(set(flush)):
            offsets = [first + at for at, of in enumerate(flush) if of == field]
            files.append(f"{field}/orders+0+{offsets[0]}+{offsets[-1]}.p")
            rows.append(len(offsets))
        first += len(flush)
    complete = HeldOffsets(next={ZERO: first}, exact=True, holes={})
    assert names(*files, rows=rows) == (complete, [])
    gone = data.draw(st.integers(0, len(files) - 1))
    del files[gone], rows[gone]
    if files:
        held, warnings = names(*files, rows=rows)
        lost = held.next[ZERO] - sum(rows)
        told = sum(after - low for at in held.holes.values() for low, after in at)
        # Each offset that is in no file is in a hole, or a warning says so.
        assert lost == told or "a file may be missing" in warnings[-1]
        assert held.exact == (lost == told or not overlap(files))


def overlap(files: list[str]) -> bool:
    """Whether the ranges in some names have an offset in common."""
    ends = [name.removesuffix(".p").split("+")[2:] for name in files]
    offsets = Counter(at for low, high in ends for at in range(int(low), int(high) + 1))
    return max(offsets.values()) > 1


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 15)), min_size=1))
def test_names_with_an_end_hold_what_sets_of_their_offsets_hold(
    files: list[tuple[int, int, int]],
) -> None:
    held, warnings = names(*(f"orders+{n}+{start}+{start + more}.p" for n, start, more in files))
    rows = [(n, start + at) for n, start, more in files for at in range(more + 1)]
    after, missing = naive(rows)
    assert held.next == after
    assert spelled_out(held) == missing
    doubled = {number for (number, _), count in Counter(rows).items() if count > 1}
    assert len(warnings) == len(doubled)


@examples(200)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(0, 60),
            st.one_of(st.none(), st.integers(0, 15)),
            st.booleans(),
        ),
        min_size=1,
    )
)
def test_names_of_both_forms_hold_what_sets_of_their_offsets_hold(
    files: list[tuple[int, int, int | None, bool]],
) -> None:
    # A name with an end agrees with its file's rows, except that no name can tell of none.
    ended = [f"+{start + (count or 1) - 1}" if end else "" for _, start, count, end in files]
    held, warnings = names(
        *(f"orders+{n}+{start}{end}.p" for (n, start, *_), end in zip(files, ended, strict=True)),
        rows=[count for *_, count, _ in files],
    )
    rows = [
        (n, start + at)
        for n, start, count, _ in files
        for at in range(1 if count is None else count)
    ]
    following, holes = naive(rows)
    lengthless = {
        TopicPartition("orders", n) for n, _, count, end in files if count is None and not end
    }
    told = {at: inside for at, inside in holes.items() if at not in lengthless}
    assert (held.next, spelled_out(held)) == (following, told)
    open_ended = {n for n, *_, end in files if not end}
    if open_ended or None not in [count for *_, count, _ in files]:
        assert held.exact == (not open_ended)
    doubled = {n for (n, _), count in Counter(rows).items() if count > 1}
    assert len(warnings) == len(doubled - open_ended)


def test_holes_start_at_the_first_offset_there_can_be() -> None:
    held, _ = names("orders+0+1+9.p", "orders+1+0+9.p")
    assert held.holes == {ZERO: [(0, 1)]}


def test_hundreds_of_thousands_of_names_are_no_matter() -> None:
    # Any quadratic step would take hours and run into the time limit of tests.
    files = [f"/in/orders+{at % 50}+{at // 50 * 10}+{at // 50 * 10 + 9}.p" for at in range(200_000)]
    held, _ = held_by_names(files, [10] * len(files))
    assert set(held.next.values()) == {40_000}
    assert held.holes == {}


@examples(60)
@given(
    files=st.lists(
        st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=30)),
        min_size=1,
        max_size=4,
    ),
    batch=st.integers(1, 40),
)
def test_columns_hold_what_sets_of_their_rows_hold_however_they_are_split(
    files: list[list[list[tuple[int, int]]]], batch: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCH_ROWS", batch)
        paths = [write(Path(folder) / f"{at}.p", *groups) for at, groups in enumerate(files)]
        held, warnings = columns(*paths)
    rows = [row for groups in files for group in groups for row in group]
    after, missing = naive(rows)
    assert held.exact
    assert held.next == after
    assert spelled_out(held) == missing
    surplus = len(rows) - len(set(rows))
    assert bool(warnings) == bool(surplus)
    if surplus:
        assert warnings[0].startswith(f"Rows of history that are duplicated: {surplus}, such as")


@examples(60)
@given(
    offsets=st.sets(st.integers(0, 300), min_size=1),
    files=st.integers(1, 4),
    chance=st.randoms(use_true_random=False),
)
def test_offsets_dealt_out_at_random_come_together_again(
    offsets: set[int], files: int, chance: Any
) -> None:
    rows = [(0, offset) for offset in offsets]
    chance.shuffle(rows)
    with tempfile.TemporaryDirectory() as folder:
        held, warnings = columns(
            *(write(Path(folder) / f"{at}.p", rows[at::files]) for at in range(files))
        )
    assert (held.next, spelled_out(held)) == naive(rows)
    assert warnings == []


def test_a_double_row_does_not_hide_a_missing_one(tmp_path: Path) -> None:
    # Statistics of this row group look like those of offsets 0 to 9.
    offsets = [0, 1, 2, 3, 4, 5, 5, 7, 8, 9]
    held, (warning,) = columns(write(tmp_path / "a.p", [(0, offset) for offset in offsets]))
    assert held.holes == {ZERO: [(6, 7)]}
    assert warning == (
        "Rows of history that are duplicated: 1, such as the one with offset 5 of topic `orders`,"
        f" partition 0 in {tmp_path}/a.p."
    )


def test_double_rows_of_two_files_are_counted_with_one_example(tmp_path: Path) -> None:
    first = write(tmp_path / "a.p", [(0, 1), (0, 2), (1, 0), (1, 1)])
    second = write(tmp_path / "b.p", [(1, 1), (1, 2)], [(0, 9), (1, 1)])
    third = write(tmp_path / "c.p", [(0, 20)])
    _, (warning,) = columns(third, first, second)
    assert "duplicated: 2, such as the one with offset 1 of topic `orders`, partition 1" in warning
    assert f" in {tmp_path}/a.p and {tmp_path}/b.p." in warning


def test_partitions_without_rows_are_not_held(tmp_path: Path) -> None:
    held, warnings = columns(write(tmp_path / "a.p"), write(tmp_path / "b.p", [], [(1, 4)], []))
    assert held == HeldOffsets(next={ONE: 5}, exact=True, holes={ONE: [(0, 4)]})
    assert warnings == []


@pytest.mark.parametrize("kind", [pa.int16(), pa.int32(), pa.uint32(), pa.uint64()])
def test_integers_of_any_width_are_offsets(tmp_path: Path, kind: pa.DataType) -> None:
    held, _ = columns(write(tmp_path / "a.p", [(0, 30_000), (0, 30_002)], kind=kind))
    assert held.next == {ZERO: 30_003}
    assert held.holes == {ZERO: [(0, 30_000), (30_001, 30_002)]}


def test_high_offsets_stay_exact(tmp_path: Path) -> None:
    top = 2**63 - 2
    held, _ = columns(write(tmp_path / "a.p", [(0, top), (0, top - 2)]))
    assert held.next == {ZERO: top + 1}
    assert held.holes == {ZERO: [(0, top - 2), (top - 1, top)]}


def test_a_missing_column_is_told_with_the_columns_there_are(tmp_path: Path) -> None:
    good = write(tmp_path / "a.p", [(0, 1)])
    pq.write_table(pa.table({"p": [0], "value": ["x"]}), tmp_path / "b.p")
    text = refusal_of_columns(good, str(tmp_path / "b.p"))
    assert text == (
        f"There is no column `o` in {tmp_path}/b.p, which `offsets` of its source names. Correct "
        "`offsets`; the file has p, value."
    )


@pytest.mark.parametrize(
    ("values", "kind"), [(["1"], "string"), ([1.0], "double"), ([True], "bool")]
)
def test_a_column_that_is_not_of_integers_is_refused(
    tmp_path: Path, values: list[Any], kind: str
) -> None:
    pq.write_table(pa.table({"p": [0], "o": values}), tmp_path / "a.p")
    text = refusal_of_columns(str(tmp_path / "a.p"))
    assert f"is of type {kind} in {tmp_path}/a.p; Kafka's partitions and offsets are int" in text
    assert "Column `o`, which `offsets` of its source names," in text


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("batch", [1, 2, 100])
def test_nulls_are_counted_over_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(module, "BATCH_ROWS", batch)
    good = write(tmp_path / "a.p", [(0, 1)])
    bad = write(tmp_path / "b.p", [(0, 1), (0, None)], [(0, 2)], [(0, None), (0, None)])
    assert f"`o` is null in 3 rows of {bad}, but each row needs" in refusal_of_columns(good, bad)
    bad = write(tmp_path / "c.p", [(None, 1), (0, 2)])
    assert f"`p` is null in 1 row of {bad}, but each row needs" in refusal_of_columns(good, bad)


@pytest.mark.parametrize(
    ("row", "kind", "told"),
    [
        ((0, -1), pa.int64(), "is -1 in a row of"),
        ((-3, 1), pa.int64(), "is -3 in a row of"),
        ((0, 2**63 - 1), pa.int64(), f"is {2**63 - 1} in a row of"),
        ((0, 2**64 - 1), pa.uint64(), f"is {2**64 - 1} in a row of"),
    ],
)
def test_numbers_that_kafka_does_not_use_are_refused(
    tmp_path: Path, row: Pair, kind: pa.DataType, told: str
) -> None:
    path = write(tmp_path / "a.p", [(0, 1), row, (0, 2)], kind=kind)
    text = refusal_of_columns(path)
    assert f"{told} {path}; Kafka's partitions and offsets are from 0 to" in text
    assert (
        f"Column `{'p' if (row[0] or 0) < 0 else 'o'}`, which `offsets` of its source names,"
        in text
    )


def test_a_corrupt_file_is_named(tmp_path: Path) -> None:
    good = write(tmp_path / "a.p", [(0, 1)])
    (tmp_path / "b.p").write_bytes(b"PAR1 this is no footer PAR1")
    text = refusal_of_columns(good, str(tmp_path / "b.p"))
    assert f"{tmp_path}/b.p can't be read as Parquet" in text
    assert "move it out of the source's folder" in text


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path}/a.p can't be read as Parquet" in refusal_of_columns(str(tmp_path / "a.p"))


def test_what_is_held_survives_the_state_document(tmp_path: Path) -> None:
    held, _ = columns(write(tmp_path / "a.p", [(0, 1), (0, 5), (1, 2)]))
    assert HeldOffsets.model_validate_json(held.model_dump_json()) == held


@pytest.mark.slow
def test_files_in_a_bucket_are_read_with_the_declared_settings_of_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    own = write(tmp_path / "a.parquet", [(0, 0), (0, 1), (1, 4)])
    with s3_server() as endpoint:
        client(endpoint).create_bucket(Bucket="archive")
        client(endpoint).upload_file(own, "archive", "in/a.parquet")
        stores = Stores(S3Settings(endpoint=endpoint))
        held, _ = held_by_columns(["s3://archive/in/a.parquet"], "orders", "p", "o", stores)
    assert held.next == {ZERO: 2, ONE: 5}
