"""Sources with three schemas, each mapped to the common one by its ``select``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.servers.broker import create_topic
from sources.errors import InputError
from sources.planning.plan import make_plan
from tests.e2e.case import BEGIN, Case, moment, wrong
from tests.e2e.in_session import (
    fails_with,
    run_chain,
    run_history,
    run_live,
    seam_is_counted,
)

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
Message = tuple[bytes, bytes, list[tuple[str, bytes]] | None]

ARCHIVE = {
    "name": "archive",
    "until": "latest",
    "max_offsets_per_batch": 300,
    "schema": {"order": "struct<no:string>", "half": "string"},
    "include": {"key": "key", "h": "headers"},
    "select": {
        "id": "CAST(substring(order.no, 3) AS bigint)",
        "at": "timestamp_millis(CAST(CAST(h[0].value AS string) AS bigint))",
        "v": "CAST(half AS double)",
        "who": "CAST(key AS string)",
    },
}
SELECT = {
    "id": "CAST(nr AS bigint)",
    "at": f"timestamp_seconds(minutes * 60 + {int(BEGIN.timestamp())})",
    "v": "CAST(nr / 2 AS double)",
    "who": "who",
}
LIVE = {
    "schema": {"nr": "int", "minutes": "bigint", "who": "string", "unused": "int"},
    "include": {"who": "key", "place": "partition"},
    "select": SELECT,
    "on_bad_record": "quarantine",
    "quarantine": "bad",
}
FILES = {
    "id": "CAST(substring(event, 3) AS bigint)",
    "at": "timestamp_millis(ms)",
    "v": "CAST(twice_v / 2 AS double)",
    "who": "name",
}
# Only a column that nobody selects does not fit.
BAD = b'{"nr": 1, "minutes": 1, "unused": "x"}'


def who(n: int) -> str:
    return f"Zoë {n % 7}\\"


def of_archive(n: int) -> Message:
    value = json.dumps({"order": {"no": f"o-{n}"}, "half": str(n / 2)}).encode()
    millis = int(moment(n).timestamp() * 1000)
    return value, who(n).encode(), [("ms", str(millis).encode()), ("x", b"\xff")]


def of_live(n: int) -> Message:
    value = {"nr": n, "minutes": n, "unused": n, "more": "y"}
    return json.dumps(value).encode(), who(n).encode(), None


def send(
    case: Case,
    topic: str,
    numbers: Iterable[int],
    message: Callable[[int], Message],
    bad: Iterable[bytes] = (),
) -> None:
    producer = Producer({"bootstrap.servers": case.servers, "enable.idempotence": True})
    last = 0
    for last in numbers:
        value, key, headers = message(last)
        stamp, part = int(moment(last).timestamp() * 1000), last % case.partitions
        producer.produce(topic, value, key, part, timestamp=stamp, headers=headers)
    for value in bad:
        stamp = int(moment(last).timestamp() * 1000)
        producer.produce(topic, value, b"k", partition=0, timestamp=stamp)
    assert producer.flush(30) == 0


def write_files(folder: Path, numbers: range) -> None:
    (folder / "in").mkdir()
    for at, first in enumerate(range(numbers.start, numbers.stop, 250)):
        part = range(first, first + 250)
        table = {
            "event": [f"e-{n}" for n in part],
            "ms": pa.array([int(moment(n).timestamp() * 1000) for n in part], pa.int64()),
            "twice_v": pa.array(part, pa.int32()),
            "name": [who(n) for n in part],
        }
        pq.write_table(pa.table(table), folder / "in" / f"{at}.parquet")


def test_files_an_archive_and_a_topic_of_three_schemas_become_one_table(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    archive = f"{case.topic}-archive"
    create_topic(servers, archive, 2, {"retention.ms": "-1"})
    write_files(tmp_path, range(1000))
    # Files hold 3, the archive alone holds 1205.
    send(case, archive, [*range(500, 1500), 3], of_archive)
    late = [3, 700, 1205]
    send(case, case.topic, [*range(1300, 1700), *late, *range(1700, 1900)], of_live, [BAD])

    def edit(document: dict[str, Any]) -> None:
        files, live = document["sources"]
        files["select"] = FILES
        document["sources"] = [files, {**live, **ARCHIVE, "topic": archive}, {**live, **LIVE}]
        document["key"] = ["id", "who"]

    loaded = case.pipeline(edit)
    run_chain(spark, loaded, seam_is_counted(loaded))
    send(case, case.topic, range(1900, 2000), of_live, [BAD])
    run_live(spark, loaded, lambda beat: beat.bad_records == 2)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (2000, {})
    assert report.ok
    removed = {
        name: sum(line.removed or 0 for line in report.ledger if line.source == name)
        for name in ("archive", "live")
    }
    # Of each the overlap, from where the source before is complete, and the late ones.
    assert removed["archive"] > 100
    assert removed["live"] > 100
    bad = report.bad_records[0]
    assert (bad.found, bad.counted, bad.lacking) == (2, 2, 0)
    assert DeltaTable(tmp_path / "bad").to_pyarrow_table()["value"].to_pylist() == [BAD] * 2
    # Against the rows as they were made, not only against another reader of the same bytes.
    rows = DeltaTable(tmp_path / "out").to_pyarrow_table().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": n, "at": moment(n), "v": n / 2, "who": who(n)} for n in range(2000)
    ]


def test_a_field_that_nobody_selects_makes_its_record_bad(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    write_files(tmp_path, range(1000))
    send(case, case.topic, range(900, 1200), of_live, [BAD])

    def edit(document: dict[str, Any]) -> None:
        document["sources"][0]["select"] = FILES
        document["sources"][1].update({**LIVE, "on_bad_record": "fail"})
        del document["sources"][1]["quarantine"]

    with fails_with(f"Topic `{case.topic}`, partition 0, offset 300"):
        run_chain(spark, case.pipeline(edit))


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("CAST(unheard_of(nr) AS double)", "UNRESOLVED_ROUTINE"),
        ("CAST(nr.x AS double)", "INVALID_EXTRACT_BASE_FIELD_TYPE"),
    ],
)
def test_what_spark_can_not_evaluate_is_refused_before_history_is_read(
    tmp_path: Path, servers: str, spark: SparkSession, expression: str, told: str
) -> None:
    case = Case(tmp_path, servers)
    write_files(tmp_path, range(1000))
    send(case, case.topic, range(500, 1010), of_live)

    def edit(document: dict[str, Any]) -> None:
        document["sources"][0]["select"] = FILES
        document["sources"][1].update({**LIVE, "select": {**SELECT, "v": expression}})

    loaded = case.pipeline(edit)
    make_plan(loaded)
    with pytest.raises(InputError, match=f"Source `live`: `select` can't be evaluated: .*{told}"):
        run_history(spark, loaded)
    assert not (tmp_path / "out").exists()
