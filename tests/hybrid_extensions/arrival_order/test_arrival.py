"""Files in order of arrival: what arrived within one interval is one micro-batch."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.arrival_order.intervals import in_order_of_arrival
from sources.common.sql.select import EventColumn
from sources.config.pipeline import Pipeline
from sources.config.source.file_options import ArrivalOrder
from sources.errors import InputError
from sources.files.listing.split_table import SPLITS
from sources.formats.event_times import EVERY_TIME
from sources.formats.file_regions import Region
from sources.formats.open_file import read_region
from sources.formats.parquet.rows import ArrivedRows
from sources.planning.files.arrival_times import arrival_warnings
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.minimal import minimal_model
from tests.properties import examples

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
MINUTE_US = 60_000_000
ORDER = ArrivalOrder(arrival="arrived", every=timedelta(minutes=1))
STORES = Stores(S3Settings())
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("arrived", pa.timestamp("us", "UTC")),
    ]
)


def write(folder: Path, files: list[list[tuple[int, int]]], **options: Any) -> pa.Table:
    """Files of rows (minute of the event, second of arrival); returns their splits."""
    splits, number = [], 0
    for at, rows in enumerate(files):
        path = folder / f"{at}.parquet"
        columns = {
            "id": list(range(number, number + len(rows))),
            "at": [BEGIN + timedelta(minutes=minute) for minute, _ in rows],
            "arrived": [BEGIN + timedelta(seconds=second) for _, second in rows],
        }
        number += len(rows)
        pq.write_table(pa.table(columns, SCHEMA), path, **options)
        size = path.stat().st_size
        splits.append({"path": str(path), "size": size, "offset": 0, "length": size})
    return pa.Table.from_pylist(splits, SPLITS)


def ordered(splits: pa.Table) -> pa.Table:
    """The splits in order of arrival."""
    event = EventColumn("at", None)
    return in_order_of_arrival("history", ORDER, splits, event, EVERY_TIME, STORES)[0]


rows_of_files = st.lists(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 600)), min_size=1, max_size=12),
    min_size=1,
    max_size=4,
)


@given(files=rows_of_files)
@examples(60)
def test_each_row_is_in_the_interval_of_its_arrival_and_in_no_other(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[tuple[int, int]]]
) -> None:
    made = ordered(write(tmp_path_factory.mktemp("files"), files, row_group_size=3))
    starts = made["arrived_from"].to_pylist()
    assert starts == sorted(starts)
    read: list[int] = []
    for split in made.to_pylist():
        region = Region(*(split[name] for name in Region._fields))
        reader = ArrivedRows("arrived", split["arrived_from"], split["arrived_from"] + MINUTE_US)
        rows = [each for batch in read_region(reader, region, SCHEMA, STORES) for each in
                batch.to_pylist()]  # fmt: skip
        assert len(rows) == split["rows"]
        times = [int(each["at"].timestamp()) * 1_000_000 for each in rows]
        assert split["event_min_us"] == min(times, default=None)
        assert split["event_max_us"] == max(times, default=None)
        read += [each["id"] for each in rows]
    assert Counter(read) == Counter(range(sum(map(len, files))))
    # Each file's bytes are shared out, from its first byte to its last.
    with_rows = made.filter(pc.greater(made["rows"], 0))
    sizes = with_rows.group_by("path").aggregate([("length", "sum"), ("size", "max")])
    assert sizes["length_sum"].to_pylist() == sizes["size_max"].to_pylist()
    assert pc.sum(pc.equal(made["offset"], 0)).as_py() == len(files)


def test_the_first_interval_of_a_pause_is_a_micro_batch_without_rows(tmp_path: Path) -> None:
    made = ordered(write(tmp_path, [[(0, 0), (1, 70)], [(2, 30), (3, 400)]]))
    minutes = [(us - int(BEGIN.timestamp()) * 1_000_000) // MINUTE_US for us in
               made["arrived_from"].to_pylist()]  # fmt: skip
    assert list(zip(minutes, made["rows"].to_pylist(), strict=True)) == [
        (0, 1),
        (0, 1),
        (1, 1),
        (2, 0),
        (6, 1),
    ]


def test_ranges_of_offsets_are_micro_batches_of_one_partition(tmp_path: Path) -> None:
    splits = write(tmp_path, [[(0, 0), (1, 1), (2, 2)], [(3, 3), (4, 900)]])
    order = ArrivalOrder(arrival="id", every=2)
    event = EventColumn("at", None)
    made, _ = in_order_of_arrival("history", order, splits, event, EVERY_TIME, STORES)
    # Offsets have holes, and a pause has none.
    assert made["arrived_from"].to_pylist() == [0, 2, 2, 4]
    assert made["rows"].to_pylist() == [2, 1, 1, 1]
    region = Region(str(tmp_path / "0.parquet"), 0, 1, 1)
    batches = read_region(ArrivedRows("id", 2, 4), region, SCHEMA, STORES)
    assert [each["id"] for batch in batches for each in batch.to_pylist()] == [2]


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("received", [BEGIN], "There is no column `arrived`"),
        ("arrived", [1], "`every` is a duration, so a timestamp is needed."),
        ("arrived", pa.array([None], pa.timestamp("us", "UTC")), "is null in 1 row of"),
    ],
)
def test_a_file_that_does_not_know_it_is_refused(
    tmp_path: Path, column: str, values: Any, told: str
) -> None:
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"at": [BEGIN], column: values}), path)
    split = {"path": str(path), "size": path.stat().st_size, "offset": 0, "length": 1}
    with pytest.raises(InputError) as caught:
        ordered(pa.Table.from_pylist([split], SPLITS))
    assert told in caught.value.message
    assert caught.value.fields["file"] == str(path)


def declare(history: dict[str, Any], **changes: Any) -> Pipeline:
    """A pipeline whose history is read in order of arrival."""
    source = {
        "type": "files",
        "name": "history",
        "path": "in/*",
        "format": "parquet",
        "order": {"arrival": "arrived", "every": "1 min"},
        **history,
    }
    live = {"type": "kafka", "name": "live", "topic": "t", **changes.pop("live", {})}
    return minimal_model(source, live, **changes)


@pytest.mark.parametrize(
    ("history", "changes", "told"),
    [
        ({"format": "orc"}, {}, "`order` by arrival needs `format: parquet`"),
        ({"batch": {"files": 1}}, {}, "an interval of arrival is one micro-batch"),
        ({"converge": {"gap": "1 h"}}, {}, "may hold rows that arrived earlier"),
        ({"time_range": {"since": "2024-01-01T00:00:00Z"}}, {}, "a live run would have read"),
        ({"schema_drift": {}}, {}, "`schema_drift` can't be combined"),
        ({"order": {"arrival": "arrived", "every": "0 s"}}, {}, "is not the length of an interval"),
        ({"order": {"arrival": "arrived", "every": -1}}, {}, "is not the length of an interval"),
        ({"order": {"arrival": "arrived", "every": "x"}}, {}, "is neither a duration"),
        ({"order": "arrival"}, {}, "`arrival` is no order"),
        ({"order": {"arrival": "o", "every": 5}}, {}, "`o` is not declared to hold them"),
        ({}, {"event_time": {"column": "at", "outside": "drop"}}, "`event_time.outside: drop`"),
        ({}, {"rules": {"good": {"check": "id > 1", "on_violation": "drop"}}},
         "`rules.good.on_violation: drop`"),
        ({}, {"live": {"on_gap": "extend"}}, "`on_gap: extend` of `live`"),
    ],
)  # fmt: skip
def test_what_can_not_be_exact_is_refused_by_name(
    history: dict[str, Any], changes: dict[str, Any], told: str
) -> None:
    assert declare({}).file_sources[0].arrival == ORDER
    with pytest.raises((ValueError, InputError), match="(?s)" + told.replace("(", r"\(")):
        declare(history, **changes)


@pytest.mark.parametrize(
    ("include", "kind", "warns"),
    [
        ({"arrived": "timestamp"}, "CreateTime", True),
        ({"arrived": "timestamp"}, "LogAppendTime", False),
        ({"sent": "timestamp"}, "CreateTime", False),
    ],
)
def test_times_of_producers_are_warned_of(
    include: dict[str, str], kind: str, *, warns: bool
) -> None:
    schema = {"id": "bigint", "at": "timestamp"}
    pipeline = declare({}, live={"include": include, "schema": schema})
    found = arrival_warnings(pipeline, pipeline.topics[0], {"t": kind})
    assert ["which producers set" in each for each in found] == [True] * warns
