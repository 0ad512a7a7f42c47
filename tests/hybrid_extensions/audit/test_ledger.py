"""The recount of a seam: what the run says is checked, and what is unknown is not right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.audit import records_in_flight
from orchestration.comparison.report import AuditReport, LedgerLine
from sources.common.positions import TopicPartition
from sources.kafka.seam import SeamRule
from sources.ledger import Ledger, LedgerEntry, SeamCount, count_name, ledger_name
from sources.planning.plan import make_plan
from sources.state.generation import Generation
from spark_jobs.checkpoint import offset_log
from tests.hybrid_extensions.audit.audit_case import Row, row, wrong
from tests.hybrid_extensions.audit.live_case import ROWS, Live, live_case

pytestmark = pytest.mark.kafka
SEQUENCE = {"path": "table", "mode": "merge", "key": ["id", "origin"], "sequence": "seats"}


@pytest.fixture
def live(tmp_path: Path, servers: str) -> Live:
    """History holds 0…9; the topic has 5…14, and five more before them for a case to choose."""
    return live_case(tmp_path, servers)


def hand_over(
    live: Live, start: int, end: int, rule: SeamRule = "key", **changed: Any
) -> tuple[dict[str, Any], Generation]:
    """Plan, and record a hand-over of partition 0 with a seam of these offsets."""
    changed = {"sources": live.sources(), **changed}
    loaded = live.case.loaded(**changed)
    plan = make_plan(loaded)
    entries = []
    for partition, (first, last) in enumerate([(start, end), (0, 0)]):
        entry = LedgerEntry(
            topic=live.topic,
            partition=partition,
            start=first,
            why="",
            log_start=0,
            first_offset=first if last else None,
            first_ms=None,
            seam_end=last,
            overlap=last - first,
            gap=None,
        )
        entries.append(entry)
    ledger = Ledger(
        source="live",
        previous=plan.files[0].end,
        decided_by="timestamp",
        rule=rule,
        end_ms=plan.files[0].end.event_time_ms,
        declared="",
        entries=entries,
    )
    generation = loaded.require_generation()
    generation.put_if_absent(ledger_name("live"), ledger)
    return changed, generation


def count(live: Live, generation: Generation, removed: int) -> None:
    at = TopicPartition(live.topic, 0)
    counted = SeamCount(source="live", rows={at: 0}, removed={at: removed})
    generation.replace(count_name("live"), counted)


def first_line(report: AuditReport) -> LedgerLine:
    line, other = report.ledger
    assert (other.partition, other.outcome) == (1, "agrees")
    return line


def version(rows: list[Row], seats: int) -> list[Row]:
    return [{**each, "seats": seats} for each in rows]


def test_a_seam_that_was_not_counted_is_unknown_and_one_counted_wrong_is_seen(live: Live) -> None:
    live.send_rows(ROWS[5:15])
    live.case.target(ROWS[:15])
    changed, generation = hand_over(live, 2, 10)
    report = live.case.audit(**changed)
    assert (wrong(report), report.outcome, report.ok) == ({}, "unknown", False)
    line = first_line(report)
    assert (line.outcome, line.delivered, line.removed) == ("unknown", 3, None)
    assert str(line.reason).startswith("the run has not passed the seam")
    for removed, outcome in ((2, "differs"), (3, "agrees"), (4, "differs")):
        count(live, generation, removed)
        report = live.case.audit(**changed)
        assert first_line(report).outcome == outcome
        assert report.outcome == ("passed" if removed == 3 else "failed")
    assert first_line(report).reason == "the run removed 4 rows of the seam, and history holds 3"


def test_a_row_before_the_start_that_no_source_delivers_is_seen(live: Live) -> None:
    live.send_rows([ROWS[30], *ROWS[5:15]])
    live.case.target(ROWS[:15])
    changed, generation = hand_over(live, 1, 11)
    count(live, generation, 5)
    report = live.case.audit(**changed)
    assert (report.outcome, wrong(report)) == ("failed", {"missing": 1})
    assert (first_line(report).outcome, first_line(report).before_start) == ("differs", 1)


@pytest.mark.parametrize("rule", ["none", "off", "replay"])
def test_a_hole_is_found_under_rules_that_filter_nothing(live: Live, rule: SeamRule) -> None:
    live.send_rows([ROWS[30], *ROWS[10:15]])
    live.case.target(ROWS[:15])
    changed, _ = hand_over(live, 1, 1, rule)
    report = live.case.audit(**changed)
    assert (report.outcome, first_line(report).before_start) == ("failed", 1)


def test_an_update_before_the_start_is_lost_though_history_has_its_key(live: Live) -> None:
    live.case.history(version(ROWS[:10], 1))
    live.send_rows([*version(ROWS[3:5], 2), *version(ROWS[5:15], 2)])
    live.case.target([*version(ROWS[:5], 1), *version(ROWS[5:15], 2)])
    changed, _ = hand_over(live, 2, 12, "replay", sink=SEQUENCE)
    report = live.case.audit(**changed)
    assert (report.outcome, wrong(report)) == ("failed", {"different": 2})
    assert first_line(report).before_start == 2


def test_an_update_before_the_start_that_a_later_one_replaces_is_not_lost(live: Live) -> None:
    live.case.history(version(ROWS[:10], 1))
    live.send_rows([*version(ROWS[3:5], 2), *version(ROWS[3:15], 3)])
    live.case.target([*version(ROWS[:3], 1), *version(ROWS[3:15], 3)])
    changed, _ = hand_over(live, 2, 14, "replay", sink=SEQUENCE)
    report = live.case.audit(**changed)
    assert (report.outcome, first_line(report).before_start) == ("passed", 0)


def test_updates_that_the_key_filter_removed_are_seen(live: Live) -> None:
    live.case.history(version(ROWS[:10], 1))
    live.send_rows([*version(ROWS[5:7], 1), *version(ROWS[7:15], 2)])
    live.case.target([*version(ROWS[:10], 1), *version(ROWS[10:15], 2)])
    changed, generation = hand_over(live, 0, 10, "key", sink=SEQUENCE)
    # By key the run found five rows in history, three of them updates.
    count(live, generation, 5)
    report = live.case.audit(**changed)
    assert (report.outcome, wrong(report)) == ("failed", {"different": 3})
    line = first_line(report)
    assert (line.outcome, line.delivered, line.removed) == ("differs", 2, 5)


def test_without_a_key_rows_before_the_start_are_unknown(live: Live) -> None:
    live.send_rows(ROWS[10:15])
    live.case.target(ROWS[:15])
    changed, _ = hand_over(live, 2, 2, "off", key=[], seam_filter="off")
    report = live.case.audit(**changed)
    line = first_line(report)
    assert (wrong(report), report.outcome) == ({}, "unknown")
    assert (line.outcome, line.before_start) == ("unknown", None)
    assert "the 2 rows before the start offset" in str(line.reason)


def test_a_seam_that_kafka_has_deleted_is_unknown(live: Live) -> None:
    live.send_rows(ROWS[5:15])
    live.case.target(ROWS[:15])
    changed, generation = hand_over(live, 2, 10)
    count(live, generation, 3)
    # History holds what is gone.
    live.delete_before(4)
    report = live.case.audit(**changed)
    assert (wrong(report), report.outcome) == ({}, "unknown")
    assert "Kafka has deleted records in the seam" in str(first_line(report).reason)


def test_a_seam_whose_planned_files_are_gone_is_unknown(live: Live) -> None:
    live.send_rows(ROWS[5:15])
    live.case.target(ROWS[:15])
    changed, generation = hand_over(live, 2, 10)
    count(live, generation, 3)
    folder = live.case.folder / "history"
    (folder / "part-0.parquet").rename(folder / "part-1.parquet")
    report = live.case.audit(**changed)
    assert (wrong(report), report.ledger, report.outcome) == ({}, [], "unknown")
    (text,) = report.unchecked
    assert text.startswith("The seam of source `live` can't be recounted, because planned files")


def test_a_hand_over_that_is_not_recorded_is_unknown(live: Live) -> None:
    live.send_rows(ROWS[5:15])
    live.case.target(ROWS[:15])
    make_plan(live.case.loaded(sources=live.sources()))
    report = live.case.audit(sources=live.sources())
    assert (wrong(report), report.outcome) == ({}, "unknown")
    assert report.unchecked == [
        "The state records no hand-over to source `live`, so its seam can't be recounted."
    ]


def test_a_row_twice_at_the_seam_is_seen_though_the_count_agrees(live: Live) -> None:
    live.send_rows(ROWS[5:15])
    live.case.target([*ROWS[:15], row(9)])
    changed, generation = hand_over(live, 2, 10)
    count(live, generation, 3)
    report = live.case.audit(**changed)
    assert (first_line(report).outcome, report.outcome) == ("agrees", "failed")
    assert wrong(report) == {"duplicated": 1}


def test_rows_that_kafka_deleted_between_history_and_start_are_not_called_proved(
    live: Live,
) -> None:
    # 10…19 are in no file, and the run began after them.
    live.send_rows(ROWS[10:30])
    live.case.target([*ROWS[:10], *ROWS[20:30]])
    changed, generation = hand_over(live, 10, 10)
    count(live, generation, 0)
    live.delete_before(10)
    report = live.case.audit(**changed)
    assert (wrong(report), report.outcome) == ({}, "unknown")
    assert "rows in between may be in no source's input" in str(first_line(report).reason)
    # Where history reaches beyond the first record, there is no hole.
    live.case.history(ROWS[:22])
    live.case.target_again(ROWS[:30])
    changed["state"] = "another"
    changed, generation = hand_over(live, 10, 20, **changed)
    count(live, generation, 2)
    assert live.case.audit(**changed).ok


@pytest.mark.parametrize(("read", "outcome"), [(12, "unknown"), (13, "failed")])
def test_what_a_paused_live_run_has_not_read_is_not_lost(
    live: Live, monkeypatch: pytest.MonkeyPatch, read: int, outcome: str
) -> None:
    live.send_rows(ROWS[2:15])
    live.case.target(ROWS[:14])
    changed, generation = hand_over(live, 8, 8)
    count(live, generation, 0)
    reached = {live.topic: {"0": read, "1": 0}}
    monkeypatch.setattr(offset_log, "committed_offset", lambda *_: reached)
    report = live.case.audit(**changed)
    assert (report.outcome, wrong(report)) == (outcome, {} if read == 12 else {"missing": 1})
    if read == 12:
        (said,) = report.unchecked
        assert said.startswith("The live run does not run: 1 record is not read yet, which may be")


@pytest.mark.parametrize(
    ("target", "told", "unread"),
    [
        (ROWS[:12], {}, ["3 missing"]),
        (ROWS[:12] + ROWS[20:22], {}, ["3 missing, 2 unexpected"]),
        (ROWS[:4], {"missing": 11}, []),
        (ROWS[:12] + ROWS[:1], {"missing": 3, "duplicated": 1}, []),
    ],
    ids=["less", "others", "too few", "twice"],
)
def test_what_a_live_run_has_yet_to_write_is_unknown_and_nothing_else(
    live: Live,
    monkeypatch: pytest.MonkeyPatch,
    target: list[Row],
    told: dict[str, int],
    unread: list[str],
) -> None:
    live.send_rows(ROWS[5:15])
    live.case.target(target)
    changed, generation = hand_over(live, 2, 10)
    count(live, generation, 3)
    report = live.case.audit(**changed)
    assert report.outcome == "failed"
    monkeypatch.setattr(records_in_flight, "is_live", lambda _: True)
    report = live.case.audit(**changed)
    assert (wrong(report), report.outcome) == (told, "failed" if told else "unknown")
    said = [
        f"10 records were on the way while topics and target were read, which may be why rows "
        f"differ ({each})"
        for each in unread
    ]
    assert [part in line for part, line in zip(said, report.unchecked, strict=True)] == [
        True for _ in unread
    ]
