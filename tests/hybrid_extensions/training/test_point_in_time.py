"""Labels get what was known at their times: compared with a search through all rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.training.columns import Asked
from hybrid_extensions.training.point_in_time import TrainingSet, training_set
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, StateError
from tests.command_line import invoke
from tests.minimal import minimal_pipeline
from tests.properties import examples

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
TABLE = pa.schema([("start", TIME), ("shop", pa.string()), ("n", pa.int64()), ("known_at", TIME)])
LABELS = pa.schema([("shop", pa.string()), ("at", TIME), ("label", pa.int64())])


def at(minutes: int | None) -> datetime | None:
    """A time."""
    return None if minutes is None else BEGIN + timedelta(minutes=minutes)


def table_of(rows: list[tuple[str | None, int, int | None]]) -> pa.Table:
    """Rows of a table: shop, hour of its window, minute at which it became known."""
    return pa.Table.from_pylist(
        [
            {"start": at(60 * hour), "shop": shop, "n": number, "known_at": at(known)}
            for number, (shop, hour, known) in enumerate(rows)
        ],
        TABLE,
    )


def labels_of(rows: list[tuple[str | None, int | None]]) -> pa.Table:
    """Labels: shop, and minute."""
    return pa.Table.from_pylist(
        [
            {"shop": shop, "at": at(minute), "label": number}
            for number, (shop, minute) in enumerate(rows)
        ],
        LABELS,
    )


def declared(folder: Path, **changes: Any) -> LoadedPipeline:
    """A pipeline with windows by shop."""
    return minimal_pipeline(
        folder,
        {"name": "h", "type": "files", "path": "in/*.parquet", "format": "parquet"},
        transform="shop:rows",
        **{"sink": {"path": "out", "mode": "append", "key": ["start", "shop"]}, **changes},
    )


def joined(folder: Path, table: pa.Table, labels: pa.Table, **asked: Any) -> TrainingSet:
    """The labels with what was known."""
    write_deltalake(folder / "out", table, mode="overwrite")
    return training_set(declared(folder), labels, Asked(**asked))


shops = st.sampled_from(["a", "b", None])


@given(
    rows=st.lists(
        st.tuples(shops, st.integers(0, 5), st.none() | st.integers(0, 12)),
        max_size=15,
        unique_by=lambda row: row[:2],
    ),
    labels=st.lists(st.tuples(shops, st.none() | st.integers(0, 14)), max_size=10),
)
@examples(60)
def test_each_label_gets_the_row_that_a_search_finds(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str | None, int, int | None]],
    labels: list[tuple[str | None, int | None]],
) -> None:
    made = joined(tmp_path_factory.mktemp("p"), table_of(rows), labels_of(labels))
    expected = []
    for number, (shop, minute) in enumerate(labels):
        best: tuple[int, int] | None = None
        found: int | None = None
        for n, (of, hour, known) in enumerate(rows):
            if shop is None or of != shop or known is None or minute is None or known > minute:
                continue
            # Of rows known at the same time, the latest window.
            if best is None or (known, hour) > best:
                best, found = (known, hour), n
        window, since = (None, None) if best is None else (at(60 * best[1]), at(best[0]))
        expected.append((shop, at(minute), number, window, found, since))
    assert made.rows.column_names == ["shop", "at", "label", "start", "n", "known_at"]
    assert [tuple(row.values()) for row in made.rows.to_pylist()] == expected
    assert made.known == sum(row[4] is not None for row in expected)
    without = sum(known is None for _, _, known in rows)
    assert [note for note in made.notes if "never known" in note][:1] == (
        [f"{without} row{' of the table has' if without == 1 else 's of the table have'} no "
         "`known_at`, and so is never known."] if without else []
    )  # fmt: skip


def test_columns_may_be_named(tmp_path: Path) -> None:
    table = table_of([("a", 0, 5), ("a", 1, 7)]).rename_columns(["start", "shop", "n", "seen"])
    labels = labels_of([("a", 6)]).rename_columns(["shop", "when", "label"])
    made = joined(tmp_path, table, labels, time="when", known_at="seen", key=["shop"])
    assert made.rows["n"].to_pylist() == [0]
    assert made.rows["known_at"].to_pylist() == [at(5)]


def test_times_without_a_zone_are_utc(tmp_path: Path) -> None:
    labels = labels_of([("a", 5), ("a", 4)])
    labels = labels.set_column(1, "at", labels["at"].cast(pa.timestamp("us")))
    made = joined(tmp_path, table_of([("a", 0, 5)]), labels)
    assert made.rows["n"].to_pylist() == [0, None]


def test_a_table_without_known_at_goes_by_the_event_time_and_says_so(tmp_path: Path) -> None:
    table = table_of([("a", 0, 5)]).rename_columns(["start", "shop", "n", "at"])
    made = joined(tmp_path, table, labels_of([("a", 6)]))
    assert made.rows["known_at"].to_pylist() == [at(5)]
    assert "although it arrived later" in made.notes[0]


@pytest.mark.parametrize(
    ("labels", "asked", "told", "hint"),
    [
        (["shop", "when", "label"], {}, "no column `at` in the file of labels", "--time"),
        (["shop", "at", "label"], {"known_at": "seen"}, "no column `seen` in the table",
         "--known-at"),
        (["store", "at", "label"], {}, "no column of `sink.key` (start, shop)", "--key"),
        (["store", "at", "label"], {"key": ["store"]}, "no column `store` in the table", "--key"),
        (["shop", "at", "n"], {}, "have a column `n`, which is in no key", "Rename `n`"),
        (["label", "at", "shop"], {}, "`shop` is BIGINT in the labels and VARCHAR", "Cast"),
        (["shop", "x", "at"], {}, "`at` of the labels is BIGINT, no timestamp", "cast it"),
        (["shop", "at", "label"], {"known_at": "n"}, "`n` of the table is BIGINT, no", "cast it"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, labels: list[str], asked: dict[str, Any], told: str, hint: str
) -> None:
    given_labels = labels_of([("a", 5)]).rename_columns(labels)
    with pytest.raises(InputError) as caught:
        joined(tmp_path, table_of([("a", 0, 5)]), given_labels, **asked)
    assert told in caught.value.message
    assert hint in caught.value.hint


def test_a_table_of_latest_values_is_refused(tmp_path: Path) -> None:
    sink = {"path": "out", "mode": "merge", "key": ["start", "shop"]}
    with pytest.raises(InputError, match="holds the latest value of each key only") as caught:
        training_set(declared(tmp_path, sink=sink), labels_of([]))
    assert "`sink.mode: append`" in caught.value.hint
    assert "`sink.history`" in caught.value.hint


VERSIONS = pa.schema(
    [
        ("shop", pa.string()),
        ("n", pa.int64()),
        ("seq", pa.int64()),
        ("gone", pa.bool_()),
        ("at", TIME),
        ("valid_from", TIME),
        ("valid_to", TIME),
    ]
)
KEPT = {
    "path": "out",
    "mode": "merge",
    "key": ["shop"],
    "sequence": "seq",
    "deleted": "gone",
    "deletes": "soft",
    "history": "at",
}


@given(
    changes=st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9), st.booleans(), st.integers(0, 8)),
        max_size=12,
        unique_by=lambda change: change[:2],
    ),
    minutes=st.lists(st.tuples(shops, st.integers(0, 10)), max_size=8),
)
@examples(40)
def test_of_every_version_a_label_gets_the_last_one_in_sequence_that_had_begun(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[str, int, bool, int]],
    minutes: list[tuple[str | None, int]],
) -> None:
    rows = [
        {
            "shop": shop,
            "n": number,
            "seq": seq,
            "gone": gone,
            "at": at(begin),
            "valid_from": at(begin),
            "valid_to": at(
                min((b for s, q, _, b in changes if s == shop and q > seq), default=None)
            ),
        }
        for number, (shop, seq, gone, begin) in enumerate(changes)
    ]
    folder = tmp_path_factory.mktemp("p")
    write_deltalake(folder / "out", pa.Table.from_pylist(rows, VERSIONS))
    labels = labels_of(list(minutes)).rename_columns(["shop", "when", "label"])
    made = training_set(declared(folder, sink=KEPT), labels, Asked(time="when"))
    assert made.rows.column_names == ["shop", "when", "label", "n", "seq", "at", "known_at"]
    for (shop, minute), row in zip(minutes, made.rows.to_pylist(), strict=True):
        begun = [
            (seq, number)
            for number, (of, seq, _, begin) in enumerate(changes)
            if of == shop and begin <= minute
        ]
        last = max(begun)[1] if begun else None
        is_there = last is not None and not changes[last][2]
        assert row["n"] == (last if is_there else None)
        assert (row["known_at"] is not None) == is_there


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    loaded = declared(tmp_path)
    with pytest.raises(StateError, match="There is no table") as caught:
        training_set(loaded, labels_of([]))
    # It may be another pipeline than that of the command.
    assert f"hybrid run {loaded.path}`" in caught.value.hint


def call(loaded: LoadedPipeline, labels: Path, out: Path) -> tuple[int, dict[str, Any]]:
    arguments = ["training", str(loaded.path), "--labels", str(labels), "--out", str(out)]
    result = invoke([*arguments, "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_the_command_writes_a_file(tmp_path: Path) -> None:
    loaded = declared(tmp_path)
    write_deltalake(tmp_path / "out", table_of([("a", 0, 5)]))
    labels, out = tmp_path / "labels.parquet", tmp_path / "training.parquet"
    pq.write_table(labels_of([("a", 4), ("a", 9)]), labels)
    status, answer = call(loaded, labels, out)
    assert (status, answer["labels"], answer["known"]) == (0, 2, 1)
    assert pq.read_table(out)["n"].to_pylist() == [None, 0]
    assert call(loaded, labels, tmp_path / "no" / "folder")[0] == 2
    labels.write_text("x")
    status, answer = call(loaded, labels, out)
    assert (status, "can't be read as Parquet" in answer["message"]) == (2, True)
    # What was written before is left as it was.
    assert pq.read_table(out).num_rows == 2
    assert [path.name for path in tmp_path.glob(".*")] == []
