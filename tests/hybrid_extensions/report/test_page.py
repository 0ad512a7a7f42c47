"""The page of `hybrid report`, over pipelines whose state was written without a JVM."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hybrid_extensions.generations.switch import promotion
from sources.errors import ErrorReport, UnavailableError
from sources.generations import begin
from sources.ledger import Ledger, LedgerEntry, ledger_name
from sources.state.generation import read_generation
from spark_jobs.run_state.heartbeat import Heartbeat, heartbeat_name
from spark_jobs.run_state.progress_log import ProgressLog, Sample, progress_log_name
from spark_jobs.run_state.requested_state import request
from tests.hybrid_extensions.generations.test_generations import two
from tests.hybrid_extensions.report.page_case import call, page_of, text_of
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.supervision.live_case import LiveCase

SECTIONS = ["status", "read", "seam", "audit", "generations", "progress", "places"]
SECRET = "hunter2-swordfish"


def unplanned(folder: Path) -> Path:
    """A pipeline of two files that nobody has planned."""
    case = GenerationCase(folder)
    (folder / "in").mkdir()
    for number in (1, 2):
        lines = [
            json.dumps({"id": number * 10 + at, "at": f"2024-01-0{number}T00:0{at}:00Z", "v": at})
            for at in range(3)
        ]
        (folder / "in" / f"{number}.json").write_text("\n".join(lines) + "\n")
    return case.loaded.path


def sampled(case: LiveCase) -> None:
    """What a run leaves that has read 12,345 rows."""
    samples = [Sample(launch_id="a", at_ms=at * 10_000, done=at * 12_345) for at in range(2)]
    case.generation.replace(progress_log_name("history"), ProgressLog(unit="rows", samples=samples))


def test_before_a_plan_the_page_names_the_way_to_one_and_leaves_no_state(tmp_path: Path) -> None:
    path = unplanned(tmp_path)
    page = page_of(path)
    assert list(page.sections) == SECTIONS
    for section in ("status", "read", "seam", "progress", "generations"):
        assert f"hybrid plan {path}" in page.sections[section], section
    assert f"hybrid run {path}` makes it" in page.sections["places"]
    assert not (tmp_path / "state").exists()


def test_a_plan_shows_files_rows_and_event_times(tmp_path: Path) -> None:
    path = unplanned(tmp_path)
    assert call(path, command="plan")[0] == 0
    page = page_of(path)
    [_, row] = page.rows["read"]
    assert row[0] == "history json"
    assert row[1].endswith("in/*.json")
    assert (row[2], row[4]) == ("2", "unknown")
    assert row[5:] == [
        "1 Jan 2024 00:00 of a sample",
        "2 Jan 2024 00:02",
        "2 Jan 2024 00:02",
    ]
    assert "reads no topic" in page.sections["seam"]
    assert "No source has been read yet" in page.sections["progress"]


def test_the_page_loads_nothing_and_runs_nothing(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    sampled(case)
    page = page_of(case.path)
    assert page.loaded
    assert [each for each in page.loaded if not each.startswith("data:image/png;base64,")] == []
    assert not page.tags & {"script", "link", "iframe", "object", "form"}
    assert page.unclosed == []


def test_values_are_escaped(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    failure = ErrorReport(kind="spark", message="<script>alert(1)</script> & more")
    case.launch("a", state="failed", failure=failure)
    page = page_of(case.path)
    assert "<script>alert(1)</script> & more" in page.sections["status"]
    assert "script" not in page.tags


def test_no_secret_is_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_DB_PASSWORD", SECRET)
    monkeypatch.setenv("HOOK", f"https://alerts.example/{SECRET[::-1]}")
    case = LiveCase(tmp_path, {"webhook": "${HOOK}"}, {"HOOK": "https://alerts.example/other"})
    case.ask_for_it()
    message = (
        f"s3://reader:topsecret@lake/in?X-Amz-Signature=deadbeef can't be read with {SECRET}; "
        f"posted to https://alerts.example/{SECRET[::-1]}; host=db password=letmein1"
    )
    case.launch("a", state="failed", failure=ErrorReport(kind="spark", message=message))
    text = text_of(case.path)
    for secret in (SECRET, SECRET[::-1], "topsecret", "deadbeef", "letmein1"):
        assert secret not in text
    assert "s3://lake/in?[hidden]" in text


def test_the_health_and_what_is_expected_are_shown(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    with case.alive():
        page = page_of(case.path)
    assert page.sections["status"].startswith("Status healthy")
    assert "waiting time" in page.sections["status"]


def test_a_stream_that_has_caught_up_has_no_time_left(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    samples = [Sample(launch_id="a", at_ms=at * 10_000, done=at * 9, left=0) for at in range(3)]
    log = ProgressLog(unit="splits", samples=samples)
    case.generation.replace(progress_log_name("inbox"), log)
    with case.alive():
        page = page_of(case.path)
    [inbox] = [row for row in page.rows["status"] if row[:1] == ["inbox"]]
    assert inbox[7] == ""


def test_numbers_are_rounded_for_people_and_exact_on_demand(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    sampled(case)
    page = page_of(case.path)
    assert page.rows["progress"][1][:2] == ["history", "12.3 k rows"]
    assert page.numbers_of("progress", 1) == [12_345]


def test_of_a_history_that_is_read_one_rate_is_told_which_is_the_average(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    sampled(case)
    case.launch("a", rows_per_s=777.0)
    ended = Heartbeat(
        launch_id="a",
        pid=1,
        host="here",
        source="history",
        phase="bounded",
        state="finished",
        at_ms=1,
        rows_per_s=999.0,
    )
    case.generation.replace(heartbeat_name("history"), ended)
    with case.alive():
        page = page_of(case.path)
    rows = {row[0]: row for row in page.rows["status"]}
    assert (rows["history"][5], rows["inbox"][5]) == ("", "777"), "that of the last micro-batch"
    assert page.rows["progress"][0][3] == "per second, on average"
    assert page.rows["progress"][1][3] == "1,234"


@pytest.mark.parametrize(("starts", "told"), [([14_000, 1_000], "1,000"), (None, "unknown")])
def test_of_a_topic_only_records_after_the_start_are_said_to_be_read(
    tmp_path: Path, starts: list[int] | None, told: str
) -> None:
    case = LiveCase(tmp_path)
    sample = Sample(launch_id="a", at_ms=1, done=16_000)
    case.generation.replace(
        progress_log_name("inbox"), ProgressLog(unit="records", samples=[sample])
    )
    if starts is not None:
        entries = [
            LedgerEntry(
                topic="t",
                partition=number,
                start=start,
                why="",
                log_start=0,
                first_offset=None,
                first_ms=None,
                seam_end=start,
                overlap=0,
                gap=None,
            )
            for number, start in enumerate(starts)
        ]
        ledger = Ledger(
            source="inbox",
            previous=None,
            decided_by="offsets",
            rule="off",
            end_ms=None,
            declared="",
            entries=entries,
        )
        case.generation.replace(ledger_name("inbox"), ledger)
    assert page_of(case.path).rows["progress"][1][1] == f"{told} records"


def test_without_matplotlib_there_are_tables_only_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = LiveCase(tmp_path)
    sampled(case)
    assert "img" in page_of(case.path).tags
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = page_of(case.path)
    assert "img" not in page.tags
    assert "pip install 'hybrid-backfill[plots]'" in page.sections["progress"]


def test_who_serves_since_when_follows_promotion_and_rollback(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.run({1: 10, 2: 20})
    path = case.loaded.path
    assert "g1 serves since" in page_of(path).sections["generations"]
    begin(case.loaded)
    case.run({1: 10, 2: 20, 3: 30})
    assert page_of(path).sections["places"].startswith(f"Places table {tmp_path}/out (version")
    assert "g2, the candidate" in text_of(path, "--generation", "g2")
    promotion.promote(case.loaded)
    page = page_of(path)
    assert "when it replaced g1 (promotion)" in page.sections["generations"]
    assert [row[:2] for row in page.rows["generations"][1:]] == [
        ["g1", "served"],
        ["g2", "serving"],
    ]
    promotion.roll_back(case.loaded)
    page = page_of(path)
    assert "g1 serves since" in page.sections["generations"]
    assert "when it replaced g2 (rollback)" in page.sections["generations"]


def test_rows_of_the_generation_that_took_its_place_are_none_of_an_earlier_one(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    log = ProgressLog(unit="rows", samples=[Sample(launch_id="a", at_ms=0, done=3)])
    read_generation(case.loaded.state, "g1").replace(progress_log_name("history"), log)
    promotion.promote(case.loaded)
    of_earlier = page_of(case.loaded.path, "--generation", "g1")
    told = "Generation g1 of pipeline `events` served before: the table has the rows of g2 by now"
    assert told in of_earlier.sections["places"]
    assert told in of_earlier.sections["progress"]
    assert "version" not in of_earlier.sections["places"]
    assert told not in page_of(case.loaded.path).sections["places"]


def test_an_audit_is_kept_for_later_reports(tmp_path: Path) -> None:
    path = unplanned(tmp_path)
    assert call(path, command="plan")[0] == 0
    assert f"hybrid audit {path}` makes one" in page_of(path).sections["audit"]
    made = page_of(path, "--audit")
    assert made.sections["audit"].startswith("Audit failed")
    assert made.rows["audit"][1][:3] == ["6", "0", "6"]
    assert page_of(path).rows["audit"] == made.rows["audit"]
    assert "Accepted" not in made.sections["audit"]
    accepted = call(path, "--accept", "known <b>gap</b>", "--by", "Ada", command="audit")
    assert accepted[1]["ok"], accepted
    assert "UTC by Ada: known <b>gap</b>" in page_of(path).sections["audit"]


def test_an_audit_that_is_refused_leaves_the_rest_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unplanned(tmp_path)
    assert call(path, command="plan")[0] == 0

    def refuse(_: object) -> None:
        raise UnavailableError("Kafka at b:9092 does not answer.", "Start it.")

    monkeypatch.setattr("hybrid_extensions.report.collect.audit", refuse)
    page = page_of(path, "--audit")
    assert page.sections["audit"] == "Audit Kafka at b:9092 does not answer. Start it."
    assert page.rows["read"][1][2] == "2"


def test_a_damaged_plan_is_named_where_it_is_missing(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    sampled(case)
    case.generation.replace_bytes("plan.json", b"{}")
    page = page_of(case.path)
    assert "can't be read" in page.sections["read"]
    assert page.rows["progress"][1][0] == "history"


def test_a_run_that_was_stopped_is_shown_with_the_reason(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    request(case.generation, "inbox", is_requested=False)
    assert page_of(case.path).sections["status"].startswith("Status stopped")


def test_an_existing_file_is_replaced(tmp_path: Path) -> None:
    path = unplanned(tmp_path)
    out = tmp_path / "report.html"
    out.write_text("old")
    assert text_of(path).startswith("<!DOCTYPE html>")
    assert [each.name for each in tmp_path.glob("*report*")] == ["report.html"]


def test_the_file_is_named_after_the_pipeline_and_lies_here_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unplanned(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert call(path) == (0, {"ok": True, "file": str(tmp_path / "events-report.html")})
    assert (tmp_path / "events-report.html").stat().st_size > 1_000


@pytest.mark.parametrize(
    ("out", "message"),
    [("nowhere/report.html", "There is no folder {}/nowhere"), ("in", "{}/in is a folder")],
)
def test_a_file_that_can_not_be_written_is_refused_by_name(
    tmp_path: Path, out: str, message: str
) -> None:
    status, answer = call(unplanned(tmp_path), "--out", str(tmp_path / out))
    assert (status, answer["kind"]) == (2, "input")
    assert message.format(tmp_path) in answer["message"]
    assert "--out" in answer["hint"]
