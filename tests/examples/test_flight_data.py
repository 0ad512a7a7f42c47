"""The example data and the audit SQL of the example pipelines."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest

import examples
from examples.flight_data import (
    FEED_OUT_OF_ORDERNESS,
    FEED_START,
    HISTORY_END,
    KEY,
    SCHEMA,
    FeedRecord,
    feed_records,
    flights,
    history,
    split_feed,
    write_history,
)
from sources.config.code.transform import FunctionTransform
from sources.config.loader import load_pipeline
from sources.config.source.file_source import FileSource

EXAMPLES = Path(examples.__file__).parent
Row = dict[str, Any]


@pytest.fixture(scope="module")
def feed() -> list[FeedRecord]:
    return feed_records()


def test_the_key_tells_all_flights_apart() -> None:
    assert flights().num_rows == 336_776
    assert flights().group_by(list(KEY)).aggregate([]).num_rows == 336_776


def test_times_are_utc() -> None:
    # UA 1545 was due to leave at 5:15 in the morning of 1 January, New York time.
    first = flights().slice(0, 1).to_pylist()[0]
    assert (first["carrier"], first["flight"]) == ("UA", 1545)
    assert first["scheduled_departure"] == datetime(2013, 1, 1, 10, 15, tzinfo=UTC)


def test_history_and_feed_hold_all_flights_and_share_the_second_half_of_september(
    feed: list[FeedRecord],
) -> None:
    def keys(rows: pa.Table) -> set[tuple[Any, ...]]:
        times = rows["scheduled_departure"].cast(pa.int64())
        columns = [rows[name].to_pylist() for name in KEY[:-1]]
        return set(zip(*columns, times.to_pylist(), strict=True))

    lines = "\n".join(record.value for record in feed).encode()
    options = pa_json.ParseOptions(explicit_schema=SCHEMA)
    fed = keys(pa_json.read_json(pa.BufferReader(lines), parse_options=options))
    archived, everything = keys(history()), keys(flights())
    assert len(feed) == len(fed) == 99_243
    assert archived | fed == everything
    begin, end = (int(moment.timestamp() * 1e6) for moment in (FEED_START, HISTORY_END))
    assert archived & fed == {key for key in everything if begin <= key[-1] < end}
    days = {date.fromordinal(719_163 + key[-1] // 86_400_000_000) for key in archived & fed}
    assert days == {date(2013, 9, day) for day in range(15, 31)}


def test_a_record_of_the_feed_is_the_flight_as_json(feed: list[FeedRecord]) -> None:
    table = flights()
    by_key = {tuple(row[name] for name in KEY): row for row in table.slice(310_000).to_pylist()}
    seen = 0
    for record in feed:
        value = json.loads(record.value)
        assert list(value) == SCHEMA.names
        text = value["scheduled_departure"]
        value["scheduled_departure"] = moment = datetime.fromisoformat(text)
        assert text == moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        assert record.timestamp_ms == moment.timestamp() * 1000
        assert record.key == value["origin"]
        if (row := by_key.get(tuple(value[name] for name in KEY))) is not None:
            assert value == row
            seen += 1
    assert seen == len(by_key)


def test_the_feed_is_out_of_order_within_bounds_and_always_the_same(
    feed: list[FeedRecord],
) -> None:
    latest = behind = 0
    for record in feed:
        behind = max(behind, latest - record.timestamp_ms)
        latest = max(latest, record.timestamp_ms)
    assert timedelta(minutes=20) < timedelta(milliseconds=behind) < FEED_OUT_OF_ORDERNESS
    assert feed_records() == feed


def test_the_feed_splits_at_an_instant_and_keeps_its_order(feed: list[FeedRecord]) -> None:
    instant = datetime(2013, 11, 15, tzinfo=UTC)
    before, after = split_feed(feed, instant)
    limit = instant.timestamp() * 1000
    assert before == [record for record in feed if record.timestamp_ms < limit]
    assert after == [record for record in feed if record.timestamp_ms >= limit]
    assert before
    assert after


def test_history_is_a_file_a_day_in_order_with_statistics(tmp_path: Path) -> None:
    files = write_history(tmp_path / "history")
    assert len(files) == 273
    assert files == sorted((tmp_path / "history").glob("day=2013-*/part-0.parquet"))
    tables = []
    for file in files:
        with pq.ParquetFile(file) as parquet:
            assert parquet.schema_arrow == SCHEMA
            statistics = parquet.metadata.row_group(0).column(0).statistics
            days = {statistics.min.date(), statistics.max.date()}
            assert days == {date.fromisoformat(file.parent.name.removeprefix("day="))}
            tables.append(parquet.read())
    assert pa.concat_tables(tables).equals(history())


@pytest.mark.parametrize("name", ["flight_delays", "flight_events"])
def test_the_pipelines_load(name: str, tmp_path: Path) -> None:
    loaded = load_pipeline(EXAMPLES / f"{name}.yaml", {"FLIGHTS_DATA": str(tmp_path)})
    pipeline = loaded.pipeline
    assert pipeline.name == name
    assert pipeline.key == list(KEY)
    source = pipeline.sources[0]
    assert isinstance(source, FileSource)
    assert loaded.locate(source.patterns[0]) == f"{tmp_path}/history/**/*.parquet"
    assert isinstance(pipeline.transform, FunctionTransform)
    text = (EXAMPLES / f"{pipeline.transform.module}.py").read_text()
    assert f"def {pipeline.transform.attribute}(" in text
    assert pipeline.audit_sql is not None
    assert Path(loaded.locate(pipeline.audit_sql)).is_file()


def run_sql(name: str, rows: pa.Table) -> list[Row]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("input", rows)
        query = (EXAMPLES / "audits" / name).read_text()
        found: list[Row] = connection.sql(query).to_arrow_table().to_pylist()
    return found


def sample(size: int) -> pa.Table:
    """Some flights, in any order; three are those of a carrier that flew none, at a mark each."""
    places = random.Random(7).sample(range(2_000), size)
    rows = flights().take(places).to_pylist()
    for at, row in enumerate(rows[:3]):
        mark = datetime(2013, 1, 2, 6 * at, tzinfo=UTC)
        row.update(carrier="ZZ", scheduled_departure=mark, cancelled=True, dep_delay=None)
    return pa.Table.from_pylist(rows, SCHEMA)


def test_the_windows_of_the_audit_are_those_of_plain_python() -> None:
    rows = sample(200)
    windows: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows.to_pylist():
        moment = row["scheduled_departure"]
        mark = moment.replace(hour=moment.hour // 6 * 6, minute=0, second=0, microsecond=0)
        for back in range(4):
            start = mark - timedelta(hours=6 * back)
            windows[start, row["origin"], row["carrier"]].append(row)
    found = run_sql("flight_delays.sql", rows)
    assert len(found) == len(windows)
    for window in found:
        held = windows[window["window_start"], window["origin"], window["carrier"]]
        delays = [row["dep_delay"] for row in held if row["dep_delay"] is not None]
        mean = sum(delays) / len(delays) if delays else None
        assert window["window_end"] - window["window_start"] == timedelta(hours=24)
        assert window["flights"] == len(held)
        assert window["mean_dep_delay"] == (None if mean is None else pytest.approx(mean))
        share = sum(row["cancelled"] for row in held) / len(held)
        assert window["share_cancelled"] == pytest.approx(share)
    assert any(window["mean_dep_delay"] is None for window in found)


def test_the_events_of_the_audit_are_those_of_plain_python() -> None:
    rows = sample(500)

    def delay_class(row: Row) -> str:
        if row["cancelled"]:
            return "cancelled"
        if row["dep_delay"] < 15:
            return "on_time"
        return "late" if row["dep_delay"] < 60 else "very_late"

    names = [*KEY, "dest", "dep_delay", "arr_delay", "cancelled"]
    expected = [
        {
            **{name: row[name] for name in names},
            "delay_class": delay_class(row),
            "departure_day": row["scheduled_departure"].date(),
        }
        for row in rows.to_pylist()
    ]
    found = run_sql("flight_events.sql", rows)

    def order(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in KEY)

    assert sorted(found, key=order) == sorted(expected, key=order)
    assert {row["delay_class"] for row in found} == {"cancelled", "on_time", "late", "very_late"}
