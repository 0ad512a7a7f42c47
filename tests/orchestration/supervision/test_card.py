"""The card: how a pipeline is, in a line that people understand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from orchestration.operations import stopping
from orchestration.progress.table_facts import TableFacts, table_facts
from orchestration.supervision import controls
from orchestration.supervision.card import Card, card
from orchestration.supervision.status import status
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.bad_record_policy import BadRecordCount
from sources.generations import begin
from sources.state.action_log import recorded
from spark_jobs.run_state.progress_log import ProgressLog, Sample, progress_log_name
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.supervision.live_case import DISK_FULL, LiveCase

DEC_30_MS = 1_388_361_600_000
SEP_30_MS = DEC_30_MS - 91 * 86_400_000


def seen(loaded: LoadedPipeline) -> Card:
    return card(loaded, status(loaded), table_facts(loaded))


@pytest.fixture
def case(tmp_path: Path) -> LiveCase:
    return LiveCase(tmp_path)


def test_before_anything_it_says_how_to_start(case: LiveCase) -> None:
    found = seen(case.loaded)
    assert found.text == ("Not started · materialize the job `events` to start · no table yet")
    assert "audit" not in found.markdown, "there is no table to be audited"
    assert not found.is_well
    assert not found.is_failing


@pytest.mark.parametrize(("limit", "told"), [(5, True), (0, False)])
def test_a_run_whose_process_is_gone_says_that_it_is_restarted_if_it_is(
    tmp_path: Path, limit: int, told: bool
) -> None:
    case = LiveCase(tmp_path, supervision={"restarts": {"limit": limit, "loop": 1}})
    case.ask_for_it()
    case.launch("a", batch_id=7)
    found = seen(case.loaded)
    assert found.headline == "Dead"
    assert found.reason.startswith("It is restarted automatically.") is told
    assert ("It is restarted automatically." in found.markdown) is told


def test_a_healthy_run_is_told_with_what_waits_its_newest_row_and_who_serves(
    case: LiveCase,
) -> None:
    facts = TableFacts(
        url="s3://lake/events",
        version=9,
        written_ms=DEC_30_MS,
        newest_ms=DEC_30_MS,
        rows=12_345,
        bytes=1,
        files=1,
        columns={"id": "bigint"},
    )
    case.ask_for_it()
    # The run reports no newer event time than that of history.
    case.launch("a", batch_id=7, event_time_ms=SEP_30_MS, ui_url="http://localhost:4040")
    with case.alive():
        found = card(case.loaded, status(case.loaded), facts)
    assert found.is_well
    headline, waiting, since, newest, rows, commit, serving = found.text.split(" · ")
    assert (headline, waiting) == ("Healthy", "0 waiting")
    assert since.startswith("running since ")
    assert (newest, rows) == ("newest row 30 Dec 2013", "12.3 k rows")
    assert commit == "last rows written 30 Dec 2013 00:00 UTC"
    assert serving == "serving g1, candidate none"
    assert "[Spark UI](http://localhost:4040)" in found.markdown
    assert "table: s3://lake/events, version 9" in found.markdown
    assert "Never audited: `hybrid audit P` proves a table right or wrong." in found.markdown
    assert re.search(r"\nChecked \d+ \w+ \d{4} \d\d:\d\d:\d\d UTC; ", found.markdown)
    assert len(found.markdown) < 1000, "more is not shown in full"


def test_records_that_were_left_out_as_bad_are_counted_in_the_line(case: LiveCase) -> None:
    case.ask_for_it()
    case.launch("a", batch_id=7, bad_records=2, broken_rules={"sound": 1, "whole": 0})
    with case.alive():
        found = seen(case.loaded)
    assert found.is_well
    assert " · 2 bad records left out · 1 row breaks `sound` · " in found.text
    assert "whole" not in found.text


def test_a_healthy_run_is_under_way_as_long_as_its_snapshot_is_read(case: LiveCase) -> None:
    case.ask_for_it()
    case.launch("a", batch_id=7)
    text = "snapshot: 3 of 12 chunks; the table is not whole yet"
    with case.alive():
        found = status(case.loaded)
        found.sources[-1].open_snapshot = text
        made = card(case.loaded, found, None)
    assert made.text.startswith(f"Reading the snapshot · {text} · 0 waiting")
    assert (made.is_well, made.is_under_way, made.is_failing) == (False, True, False)


def test_a_paused_run_is_neither_well_nor_failing_and_says_who_and_how_to_resume(
    case: LiveCase,
) -> None:
    case.ask_for_it()
    case.launch("a")
    controls.pause(case.loaded, "new brokers", "Ada")
    found = seen(case.loaded)
    assert found.headline == "Paused"
    assert (found.is_well, found.is_failing) == (False, False)
    for each in ("Ada", "new brokers", "`hybrid resume P`"):
        assert each in found.markdown


def test_a_dead_run_is_failing_with_the_reason(case: LiveCase) -> None:
    case.ask_for_it()
    case.launch("a", state="failed", failure=DISK_FULL)
    found = seen(case.loaded)
    assert found.is_failing
    assert "disk full" in found.markdown
    assert "running since" not in found.text


def test_what_to_do_about_a_failure_is_shown_and_no_link_to_a_spark_that_is_gone(
    case: LiveCase,
) -> None:
    bad = DISK_FULL.model_copy(
        update={
            "message": f"Topic `{'t' * 100}`, partition 0, offset 7: `v` can't be read as double.",
            "hint": f"{'Write it. ' * 10}Then run it again.",
            "transient": False,
        }
    )
    case.ask_for_it()
    case.launch("a", state="failed", failure=bad, ui_url="http://localhost:4040")
    with recorded(case.loaded.state, "backfill", "Ada", "g1", {"until": "x" * 300}):
        pass
    found = seen(case.loaded)
    assert "Then run it again." in found.markdown
    assert "Spark UI" not in found.markdown
    assert "Log of actions" in found.markdown
    assert len(found.markdown) < 1000, "more is not shown in full"


def test_while_history_is_read_its_progress_is_told(case: LiveCase) -> None:
    now = now_ms()
    case.launch("a", source="history", phase="bounded", state="starting", splits_total=None)
    beat = case.generation.path("run/inbox-heartbeat.json")
    said = {**json.loads(beat.read_text()), "source": "history"}
    beat.unlink()
    launch = json.loads(case.generation.path("run/launch.json").read_text())
    case.generation.path("run/launch.json").write_text(json.dumps({**launch, "source": "history"}))
    case.generation.path("run/history-heartbeat.json").write_text(
        json.dumps({**said, "state": "running", "rows_done": 106_000, "rows_total": 252_000})
    )
    log = ProgressLog(unit="rows")
    for second, done in ((-60, 0), (0, 106_000)):
        at_ms = now + second * 1000
        log = log.with_sample(Sample(launch_id="a", at_ms=at_ms, done=done, left=252_000 - done))
    case.generation.replace(progress_log_name("history"), log)
    with case.alive():
        found = status(case.loaded).model_copy(update={"planned": True})
        told = card(case.loaded, found, None)
    assert told.text.startswith(
        "Reading history · 42%, 106 k of 252 k rows · about 1 min left · no table yet"
    )
    assert told.is_moving


def test_a_candidate_is_named_beside_the_generation_that_serves(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.run({1: 10})
    begin(case.loaded)
    assert "serving g1, candidate g2 (not started)" in seen(case.loaded).text
    case.run({1: 11})
    assert "serving g1, candidate g2 (computed)" in seen(case.loaded).text


def test_a_candidate_says_what_keeps_it_from_being_computed(
    tmp_path: Path,
) -> None:
    case = GenerationCase(tmp_path)
    case.run({1: 10})
    begin(case.loaded)
    found = status(case.loaded)
    waits = found.model_copy(update={"planned": True, "waits_for_approval": True})
    assert "candidate g2 (waiting for approval)" in card(case.loaded, waits, None).text
    for state, told in (("running", "computing"), ("dead", "dead"), ("failed", "failed")):
        sources = [found.sources[0].model_copy(update={"state": state})]
        seen_now = card(case.loaded, found.model_copy(update={"sources": sources}), None)
        assert f"candidate g2 ({told})" in seen_now.text


def test_a_run_that_was_drained_says_so_and_a_stopped_one_does_not(case: LiveCase) -> None:
    case.ask_for_it()
    case.launch("a")
    with case.alive_until_stopped():
        stopping.stop(case.loaded, "Ada", why=controls.DRAINED)
    assert (
        "by Ada (drained: all input that was there by then is committed)"
        in seen(case.loaded).reason
    )
    case.ask_for_it()
    stopping.stop(case.loaded, "Ada")
    assert "drained" not in seen(case.loaded).reason


def test_rows_that_were_deleted_do_not_count(tmp_path: Path, case: LiveCase) -> None:
    write_deltalake(str(tmp_path / "out"), pa.table({"id": range(10)}))
    DeltaTable(str(tmp_path / "out")).delete("id < 4")
    facts = table_facts(case.loaded)
    assert facts is not None
    assert (facts.rows, facts.version, facts.columns) == (6, 1, {"id": "bigint"})


MINUTE_MS = 60_000


def plots_of(case: LiveCase, log: ProgressLog) -> str:
    case.ask_for_it()
    case.launch("a")
    case.generation.replace(progress_log_name("inbox"), log)
    with case.alive():
        found = seen(case.loaded).plots
    assert found is not None
    assert len(found) < 1000, "more is not shown in full"
    return found


def test_the_highest_of_the_last_day_stays_while_samples_become_fewer(case: LiveCase) -> None:
    now = now_ms()
    log = ProgressLog(unit="records")
    # Two hours, of which the samples keep the last minutes only: a peak was in the first one.
    for second in range(-7200, 1, 5):
        done = 1_000_000 if second < -7200 + 65 else 1_660_000
        left = 57_102 if second == -7200 + 20 else 3
        at_ms = now + second * 1000
        log = log.with_sample(Sample(launch_id="a", at_ms=at_ms, done=done, left=left))
    assert max(each.left or 0 for each in log.samples) == 3
    waiting, rates = (part for part in plots_of(case, log).split("**") if part.startswith(": "))
    assert "highest 57.1 k at" in waiting
    # What waits now is in the headline; here, what was left after the last micro-batch.
    assert "last 3\n" in waiting
    assert "highest 11.0 k at" in rates
    assert "last 0\n" in rates


def test_what_is_older_than_a_day_is_not_shown(case: LiveCase) -> None:
    now = now_ms()
    log = ProgressLog(unit="records")
    for hours, left in ((-30, 900), (-23, 70), (0, 3)):
        at_ms = now + hours * 3_600_000
        log = log.with_sample(Sample(launch_id="a", at_ms=at_ms, done=0, left=left))
    assert "first 70, highest 70 at" in plots_of(case, log)


def test_the_newest_row_does_not_go_back_when_the_run_is_started_again(case: LiveCase) -> None:
    case.ask_for_it()
    before = Sample(launch_id="a", at_ms=now_ms() - 1000, done=5, event_time_ms=DEC_30_MS)
    case.generation.replace(
        progress_log_name("inbox"), ProgressLog(unit="splits", samples=[before])
    )
    case.launch("b")
    with case.alive():
        found = seen(case.loaded)
    assert "newest row 30 Dec 2013" in found.text


def test_what_waits_for_an_approval_is_not_on_its_way_so_that_its_check_warns(
    case: LiveCase,
) -> None:
    found = status(case.loaded).model_copy(update={"planned": True, "waits_for_approval": True})
    waits = card(case.loaded, found, None)
    assert waits.headline == "Waiting for approval"
    assert (waits.is_under_way, waits.is_well, waits.is_failing) == (False, False, False)


def test_a_live_run_whose_spark_is_up_works_on_its_first_batch(case: LiveCase) -> None:
    case.ask_for_it()
    case.launch("a", state="starting", advanced_at_ms=None, idle=False)
    with case.alive():
        assert "Spark is starting" in seen(case.loaded).text
    case.launch("a", advanced_at_ms=None, idle=False)
    with case.alive():
        told = seen(case.loaded).text
    assert told.startswith("Starting · Spark works on the first batch · ")


def test_where_quarantined_records_are_is_on_the_pages_of_table_and_stream(tmp_path: Path) -> None:
    columns = {"id": "bigint", "at": "timestamp"}
    files = {"type": "files", "format": "json", "schema": columns, "path": "inbox"}
    inbox = {**files, "name": "inbox", "discovery_interval": "1 s", "on_bad_record": "quarantine"}
    case = LiveCase(tmp_path, inbox=inbox)
    case.ask_for_it()
    case.launch("a", bad_records=2)
    assert "left out of the table" not in seen(case.loaded).markdown
    case.generation.replace("bad/inbox.json", BadRecordCount(source="inbox", total=2))
    assert (
        "2 records of source `inbox`, left out of the table: see the Delta table "
        f"`{case.generation.folder('quarantine/inbox')}`."
    ) in seen(case.loaded).markdown
