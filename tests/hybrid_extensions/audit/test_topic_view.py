"""The audit of a topic: read to its end by position, whatever lies between its records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestration.comparison.report import AuditReport
from sources.errors import InputError
from tests.extensions import needs
from tests.hybrid_extensions.audit.audit_case import COLUMNS, Row, wrong
from tests.hybrid_extensions.audit.live_case import ROWS, Live, as_json, live_case

pytestmark = pytest.mark.kafka


@pytest.fixture
def live(tmp_path: Path, servers: str) -> Live:
    return live_case(tmp_path, servers)


def is_right(report: AuditReport) -> bool:
    """Nothing is wrong; without a state, the seam alone can't be recounted."""
    missing = "The state records no hand-over to source `live`, so its seam can't be recounted."
    return (wrong(report), report.outcome, report.unchecked) == ({}, "unknown", [missing])


@pytest.mark.parametrize(("isolation", "read"), [("read_committed", 15), ("read_uncommitted", 25)])
def test_offsets_without_records_do_not_hold_it_up(live: Live, isolation: str, read: int) -> None:
    live.send(as_json(ROWS[5:15]))
    live.send(as_json(ROWS[15:20]))
    live.send(as_json(ROWS[20:30]), partition=1, commit=False)
    live.case.target(ROWS[: read + 5])
    history, topic = live.sources()
    report = live.case.audit(sources=[history, {**topic, "isolation": isolation}])
    assert is_right(report)
    assert report.input_rows.sources == {"history": 10, "live": read}
    assert report.input_rows.distinct == read + 5


def test_a_row_of_the_topic_that_is_missing_is_named(live: Live) -> None:
    live.send(as_json(ROWS[5:30]), partition=1)
    live.case.target([row for row in ROWS[:30] if row["id"] != 23])
    report = live.case.audit(sources=live.sources(COLUMNS))
    assert wrong(report) == {"missing": 1}
    assert report.examples["missing"][0].key == {"id": 23, "origin": "JFK"}


def test_deleted_and_valueless_records_and_an_empty_partition(live: Live) -> None:
    live.send(as_json(ROWS[:20]))
    live.send([None, *as_json(ROWS[20:22]), None])
    live.delete_before(8)
    live.case.target(ROWS[:22])
    report = live.case.audit(sources=live.sources())
    assert is_right(report)
    assert report.input_rows.sources == {"history": 10, "live": 14}
    assert report.notes == [
        "Source `live`: 2 records of its topics have no value, and do not count as rows."
    ]


def test_a_topic_without_records(live: Live) -> None:
    live.case.target(ROWS[:10])
    report = live.case.audit(sources=live.sources())
    assert is_right(report)
    assert report.input_rows.sources == {"history": 10, "live": 0}


def test_sql_sees_where_a_record_lies(live: Live) -> None:
    live.send(as_json(ROWS[10:12]), partition=1)
    live.case.target(ROWS[10:12])
    query = (
        "SELECT * EXCLUDE (_topic, _partition, _offset, _timestamp_ms) FROM live "
        "WHERE _partition = 1 AND _offset IN (0, 1) AND _timestamp_ms = 1000 + _offset"
    )
    assert is_right(live.case.audit(sources=live.sources(), audit=live.case.sql(query)))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b'{"id": 1', 'is not a JSON object: {"id": 1'),
        (b"[1]", "is not a JSON object: [1]"),
        (b"", "is not a JSON object"),
        (b"\xff", "the value is not UTF-8 text"),
        (b'{"id": "x"}', '`id` does not fit its type: "x"'),
        (b'{"at": "yesterday"}', '`at` does not fit its type: "yesterday"'),
    ],
)
def test_a_value_that_can_not_be_decoded_is_refused_by_its_offset(
    live: Live, value: bytes, told: str
) -> None:
    live.send([*as_json(ROWS[:3]), value], partition=1)
    with pytest.raises(InputError) as caught:
        live.case.audit(sources=live.sources())
    text, fields = str(caught.value), caught.value.fields
    assert fields == {"source": "live", "topic": live.topic, "partition": 1, "offset": 3}
    assert f"Topic `{live.topic}`, partition 1, offset 3" in text
    assert told in text


@pytest.mark.parametrize("policy", ["drop", "quarantine"])
def test_bad_records_that_are_allowed_are_told_and_are_no_rows(live: Live, policy: str) -> None:
    bad = [b"[1]", b"\xff", None, b'{"id": "7"}', b'{"seats": 1.5}', b'{"delay": "2"}']
    live.send([*as_json(ROWS[10:12]), *bad, *as_json(ROWS[12:14])])
    live.case.target(ROWS[:14])
    history, topic = live.sources()
    report = live.case.audit(sources=[history, {**topic, "on_bad_record": policy}])
    assert is_right(report)
    assert report.notes == []
    assert report.input_rows.sources == {"history": 10, "live": 4}
    line = report.bad_records[0]
    assert (line.source, line.policy, line.found, line.counted) == ("live", policy, 6, None)
    assert (line.outcome, line.reason) == ("unknown", "no run has counted")


@needs("expressions")
def test_rows_are_made_as_select_says(live: Live) -> None:
    def other(row: Row) -> bytes:
        at = int(row["at"].timestamp() * 1000)
        return json.dumps(
            {"no": f"f-{row['id']}", "at": {"ms": at}, "late": str(row["delay"]), "x": 1}
        ).encode()

    # `x` is in no column that comes out, and the record is bad nevertheless.
    bad = b'{"no": "f-1", "at": {"ms": 1}, "late": "1", "x": "one"}'
    headers = [("seats", b"7"), ("from", "Zürich\\".encode())]
    live.send([*map(other, ROWS[5:15]), bad], headers=headers)
    history, topic = live.sources({"no": "string", "at": "struct<ms:bigint>", "late": "string"})
    topic["schema"]["x"] = "int"
    declared = {
        "include": {"h": "headers", "number": "offset"},
        "on_bad_record": "drop",
        "select": {
            "at": "timestamp_millis(at.ms)",
            "id": "CAST(substring(no, 3) AS bigint)",
            "origin": "CAST(h[1].value AS string)",
            "delay": "CAST(late AS double)",
            "seats": "CAST(CAST(h[0].value AS string) AS int)",
            "number": "number",
        },
    }
    expected = [{**row, "origin": "Zürich\\", "seats": 7} for row in ROWS[5:15]]
    live.case.target([*ROWS[:10], *expected])
    report = live.case.audit(sources=[history, {**topic, **declared}])
    assert is_right(report)
    assert report.input_rows.sources == {"history": 10, "live": 10}
    assert report.bad_records[0].found == 1
    # The log's own columns stay, for those who ask for them.
    query = (
        "SELECT * EXCLUDE (_topic, _partition, _offset, _timestamp_ms, number) FROM live "
        "WHERE _offset = number"
    )
    sql = live.case.sql(query)
    live.case.target_again(expected)
    assert is_right(live.case.audit(sources=[history, {**topic, **declared}], audit=sql))


def test_a_topic_that_does_not_exist(live: Live) -> None:
    gone = Live(live.case, live.servers, "gone")
    assert f"There is no topic `gone` on {live.servers}." in gone.refusal()
