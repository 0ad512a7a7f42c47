"""Dirty data in every format at once: wrong clocks, late rows, updates, deletes and holes.

What the table has to hold is computed by DuckDB from the list of everything that was written, of
which the pipeline knows nothing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable, write_deltalake
from pyarrow import orc
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.config.loader import LoadedPipeline
from sources.config.source.bad_record_policy import BadRecordCount, bad_count_name
from spark_jobs.run_state.late_row_count import read_late_rows
from tests.e2e.case import TRANSFORMS, Case, moment
from tests.e2e.in_session import run_chain, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

WRONG = (datetime(2099, 6, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC))
DEDUPLICATE = """

def deduplicated(rows):
    return rows.withWatermark("at", "90 minutes").dropDuplicates(["seq", "at"])
"""


class Event(NamedTuple):
    """A change of an entity; ``seq`` is its place in the log of all changes."""

    seq: int
    id: int
    at: datetime
    gone: bool

    @property
    def is_outside(self) -> bool:
        """Whether its event time is that of a wrong clock."""
        return self.at in WRONG


def events(random_: random.Random, count: int) -> list[Event]:
    """Changes of 40 entities, some of them late by up to 30 minutes, some with a wrong clock."""
    made = []
    for seq in range(count):
        late = timedelta(minutes=random_.choice([0, 0, 0, 5, 30]))
        at = random_.choice(WRONG) if random_.random() < 0.05 else moment(seq) - late
        made.append(Event(seq, random_.randrange(40), at, random_.random() < 0.15))
    return made


def table_of(rows: Sequence[Event], unit: str = "us") -> pa.Table:
    return pa.table(
        {
            "seq": pa.array([row.seq for row in rows], pa.int64()),
            "id": pa.array([row.id for row in rows], pa.int64()),
            "at": pa.array([row.at for row in rows], pa.timestamp(unit, "UTC")),
            "gone": pa.array([row.gone for row in rows], pa.bool_()),
        }
    )


def value_of(row: Event) -> bytes:
    return json.dumps({**row._asdict(), "at": f"{row.at:%Y-%m-%dT%H:%M:%SZ}"}).encode()


def as_text(row: Event) -> str:
    return f"{row.at:%Y-%m-%dT%H:%M:%SZ} {row.seq:06} {row.id:06} {row.gone}".lower()


def write_avro(path: Path, rows: Sequence[Event]) -> None:
    kinds: dict[str, Any] = {"seq": "long", "id": "long", "gone": "boolean"}
    kinds["at"] = {"type": "long", "logicalType": "timestamp-micros"}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    with path.open("wb") as file:
        fastavro.writer(
            file, {"type": "record", "name": "r", "fields": fields}, [r._asdict() for r in rows]
        )


def write_csv(path: Path, rows: Sequence[Event]) -> None:
    at = pa.array([f"{row.at:%Y-%m-%dT%H:%M:%SZ}" for row in rows])
    pa_csv.write_csv(table_of(rows).set_column(2, "at", at), path)


KINDS = {"seq": "bigint", "id": "bigint", "at": "timestamp", "gone": "boolean"}
AS_TEXT = {
    "seq": "CAST(substring(value, 22, 6) AS bigint)",
    "id": "CAST(substring(value, 29, 6) AS bigint)",
    "at": "CAST(to_timestamp(substring(value, 1, 19), \"yyyy-MM-dd't'HH:mm:ss\") AS timestamp)",
    "gone": "CAST(substring(value, 36) = 'true' AS boolean)",
}
Write = Callable[[Path, Sequence[Event]], object]
FORMATS: dict[str, tuple[Write, dict[str, Any]]] = {
    "parquet": (lambda path, rows: pq.write_table(table_of(rows), path), {}),
    "delta": (lambda path, rows: write_deltalake(path.parent, table_of(rows), mode="append"), {}),
    "orc": (lambda path, rows: orc.write_table(table_of(rows, "ns"), path), {}),
    "avro": (write_avro, {}),
    "csv": (write_csv, {"schema": KINDS}),
    "json": (
        lambda path, rows: path.write_bytes(b"\n".join(map(value_of, rows)) + b"\n"),
        {"schema": KINDS},
    ),
    "text": (
        lambda path, rows: path.write_text("\n".join(map(as_text, rows)) + "\n"),
        {"select": AS_TEXT},
    ),
}


def write_files(case: Case, form: str, rows: Sequence[Event], files: int) -> None:
    write, _ = FORMATS[form]
    (case.folder / "in").mkdir()
    for number in range(files):
        part = rows[number * len(rows) // files : (number + 1) * len(rows) // files]
        write(case.folder / "in" / f"{number}.{form}", part)


def send(case: Case, rows: Sequence[Event]) -> dict[int, int]:
    """Send records with a right timestamp, and transactions that are aborted between them.

    Returns:
        The offset of each record, by its place in the log of all changes.
    """
    producer = Producer({"bootstrap.servers": case.servers, "transactional.id": case.topic})
    producer.init_transactions(30)
    offsets: dict[int, int] = {}

    def put(row: Event, *, counts: bool) -> None:
        def delivered(_: Any, message: Any) -> None:
            if counts:
                offsets[row.seq] = message.offset()

        stamp = int(moment(row.seq).timestamp() * 1000)
        producer.produce(
            case.topic, value_of(row), partition=0, timestamp=stamp, on_delivery=delivered
        )

    for first in range(0, len(rows), 50):
        producer.begin_transaction()
        for row in rows[first : first + 50]:
            put(row, counts=True)
        producer.commit_transaction(30)
        producer.begin_transaction()
        put(rows[first]._replace(id=10_000), counts=False)
        producer.flush(30)
        producer.abort_transaction(30)
    return offsets


def declared(case: Case, form: str, edit: Callable[[dict[str, Any]], None]) -> LoadedPipeline:
    def all_of_it(document: dict[str, Any]) -> None:
        path = "in" if form == "delta" else f"in/*.{form}"
        document["sources"][0] |= {"path": path, "format": form, **FORMATS[form][1]}
        document["sources"][0]["batch"] = {"files": 1}
        document["sources"][1] |= {"schema": KINDS, "format": "json"}
        document["sources"][1]["max_offsets_per_batch"] = 100
        document["event_time"] = {"column": "at", "outside": "quarantine"}
        edit(document)

    return case.pipeline(all_of_it)


def outside(loaded: LoadedPipeline, source: str) -> tuple[int, int]:
    """Rows outside of the bounds that the run has counted, and those in the quarantine table."""
    generation = loaded.require_generation()
    count = generation.read(bad_count_name(source), BadRecordCount)
    path = generation.path(f"quarantine/{source}")
    quarantined = DeltaTable(path).count() if DeltaTable.is_deltatable(str(path)) else 0
    return (0 if count is None else count.outside), quarantined


def query(rows: Sequence[Event], sql: str) -> list[tuple[Any, ...]]:
    """Return what DuckDB makes of all events, in the view ``log``."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("log", table_of(rows))
        rows_found: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
        return rows_found


def found(loaded: LoadedPipeline, *names: str) -> list[tuple[Any, ...]]:
    rows = DeltaTable(loaded.locate("out")).to_pyarrow_table().select(list(names)).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("form", FORMATS)
def test_changes_end_in_the_last_one_of_each_entity_and_wrong_clocks_are_counted(
    tmp_path: Path, servers: str, spark: SparkSession, form: str
) -> None:
    case, random_ = Case(tmp_path, servers), random.Random(form)
    log = events(random_, 500)
    history = [*log[:300], *random_.sample(log[:300], 20)]
    write_files(case, form, history, 4)
    offsets = send(case, log[200:400])

    def edit(document: dict[str, Any]) -> None:
        document["sink"] |= {"mode": "merge", "sequence": "seq", "deleted": "gone"}

    loaded = declared(case, form, edit)
    ledger = run_chain(spark, loaded)
    offsets |= send(case, log[400:])
    start = ledger.entries[0].start
    read = [row for row in log if offsets.get(row.seq, -1) >= start]
    in_files, in_topic = (sum(row.is_outside for row in rows) for rows in (history, read))
    assert in_files
    assert in_topic
    run_live(spark, loaded, lambda beat: beat.outside_records == in_topic)
    expected = query(
        [row for row in log if not row.is_outside],
        "SELECT id, max(seq) FROM log GROUP BY id HAVING NOT max_by(gone, seq) ORDER BY id",
    )
    assert found(loaded, "id", "seq") == expected
    assert outside(loaded, "history") == (in_files, in_files)
    assert outside(loaded, "live") == (in_topic, in_topic)
    report = audit(loaded)
    # Nothing but the run's own reader reads ORC.
    assert report.outcome == ("unknown" if form == "orc" else "passed"), report.to_dict()


@pytest.mark.parametrize("form", FORMATS)
def test_late_rows_of_the_topic_are_the_only_ones_that_are_missing_and_each_is_counted(
    tmp_path: Path, servers: str, spark: SparkSession, form: str
) -> None:
    case, random_ = Case(tmp_path, servers), random.Random(f"late {form}")
    (tmp_path / "transforms.py").write_text(f"{TRANSFORMS}{DEDUPLICATE}")
    log = events(random_, 500)
    late = [Event(1000 + n, n, moment(100 + n), gone=False) for n in range(7)]
    write_files(case, form, log[:300], 3)
    send(case, log[200:400])

    def edit(document: dict[str, Any]) -> None:
        document["key"] = ["seq"]
        document["allowed_lateness"] = "60 min"
        document["transform"] = "transforms:deduplicated"
        document["sink"] = {"path": "out", "mode": "append", "key": ["seq"]}
        document["supervision"] = {"late_rows": {"live": "100 %"}}

    loaded = declared(case, form, edit)
    run_chain(spark, loaded)
    send(case, [*late, *log[400:]])
    generation = loaded.require_generation()

    def is_counted(_: object) -> bool:
        count = read_late_rows(generation, "live")
        return count is not None and count.dropped >= len(late)

    run_live(spark, loaded, is_counted)
    assert found(loaded, "seq") == query(
        [row for row in log if not row.is_outside], "SELECT seq FROM log ORDER BY seq"
    )
    counted = read_late_rows(generation, "live")
    assert counted is not None
    assert (counted.dropped, counted.unknown_batches) == (len(late), 0)
    assert outside(loaded, "history")[0] == sum(row.is_outside for row in log[:300])
    report = audit(loaded)
    assert (report.ok, report.missing) == (False, len(late))
