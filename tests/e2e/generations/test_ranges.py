"""Days of the target made anew from corrected files, beside a live run."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.ranges.partitions import HISTORY, ranges_key
from orchestration.display import second
from orchestration.pipeline_definitions import pipeline_definitions
from sources.common.times import to_ms
from sources.config.loader import LoadedPipeline
from sources.hand_over import hand_over
from sources.kept_definitions import keep_definition
from sources.planning.context import PipelineContext
from tests.command_line import invoke
from tests.e2e.case import BEGIN, Case, as_json, live_of
from tests.e2e.in_session import run_history, run_live
from tests.hybrid_extensions.ranges.marks import mark

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def call(loaded: LoadedPipeline, since: int, until: int, *more: str) -> tuple[int, dict[str, Any]]:
    """``hybrid backfill`` of the events from one number to another."""
    moments = [f"{BEGIN + timedelta(minutes=n):%Y-%m-%dT%H:%M:%SZ}" for n in (since, until)]
    options = ["--since", moments[0], "--until", moments[1], "--json", *more]
    done = invoke(["backfill", str(loaded.path), *options])
    assert done.stdout, done.stderr
    return done.exit_code, json.loads(done.stdout)


def seen(folder: Path) -> dict[int, float]:
    rows = DeltaTable(folder / "out").to_pyarrow_table()
    assert len(set(rows["id"].to_pylist())) == len(rows)
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def launch(
    loaded: LoadedPipeline, instance: dg.DagsterInstance, **form: object
) -> dg.ExecuteInProcessResult:
    """The job with a form for any range."""
    return (
        pipeline_definitions(loaded)
        .resolve_job_def("events_backfill")
        .execute_in_process(
            instance=instance,
            run_config={"ops": {"do_events_backfill": {"config": form}}},
            raise_on_error=False,
        )
    )


def output_of(done: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """Metadata that the job's only step reports."""
    assert done.success
    [event] = [each for each in done.all_events if each.is_successful_output]
    return {name: each.value for name, each in event.step_output_data.metadata.items()}


def result_of(done: dg.ExecuteInProcessResult, instance: dg.DagsterInstance) -> str:
    """What lists of runs show beside the state of the run."""
    run = instance.get_run_by_id(done.run_id)
    assert run is not None
    return run.tags["hybrid/result"]


def refusal(done: dg.ExecuteInProcessResult) -> str:
    """Description of the failure of the job's only step."""
    [event] = done.filter_events(lambda event: event.event_type_value == "STEP_FAILURE")
    failure = event.step_failure_data.user_failure_data
    assert failure is not None
    return str(failure.description)


def handed_over(spark: SparkSession, case: Case) -> LoadedPipeline:
    """A pipeline of hourly ranges of one day, whose history is read and whose stream may start."""
    case.write_history()  # 4 files of 250
    # One of the topic is late: it belongs to the range.
    case.produce([*range(1000, 1200), 5000])
    day = {"by": "hour", "start": "2024-01-01", "end": "2024-01-02"}
    loaded = case.pipeline(lambda document: document.update(ranges=day))
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    keep_definition(loaded, loaded.require_generation())
    return loaded


def test_dagster_shows_what_history_has_filled_and_what_a_backfill_would_read(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    loaded = handed_over(spark, Case(tmp_path, servers))
    with dg.DagsterInstance.ephemeral() as instance:
        job = pipeline_definitions(loaded).resolve_job_def("events")
        for _ in range(2):
            job.execute_in_process(
                instance=instance, asset_selection=[dg.AssetKey(["events", "history"])]
            )
            mark(loaded, instance)
        records = instance.fetch_materializations(ranges_key(loaded), limit=100).records
        assert len(records) == 24, "what is filled is not marked twice"
        by_history = {
            record.partition_key
            for record in records
            if record.asset_materialization is not None
            and record.asset_materialization.metadata["delivered by"].value == HISTORY
        }
        # 999 minus the allowed lateness of 100 minutes: the hour of 14:59 is not whole.
        assert by_history == {f"2024-01-01-{hour:02}:00" for hour in range(14)}

        before = DeltaTable(tmp_path / "out").version()
        would = call(loaded, 300, 540, "--dry-run")[1]
        assert (would["ok"], would["generation"], would["splits"]) == (True, "g1", 2)
        morning = {"since": "2024-01-01T05:00:00Z", "until": "2024-01-01T09:00:00Z"}
        # The form only looks, unless it is told otherwise.
        looked = launch(loaded, instance, **morning)
        assert output_of(looked)["splits"] == 2
        # In lists of runs `Success` alone would say that it is done.
        assert result_of(looked, instance) == "dry run"
        last_day = output_of(launch(loaded, instance))
        assert (last_day["since"], last_day["until"]) == (
            second(to_ms(BEGIN) - 86_400_000),
            second(to_ms(BEGIN)),
        )
        assert DeltaTable(tmp_path / "out").version() == before
        # Without an end the range is a day, of which history has the first hours.
        text = refusal(launch(loaded, instance, since="2024-01-01"))
        assert "the range ends at 2024-01-02T00:00:00Z" in text
        assert "Set `until` to 2024-01-01T14:59:00Z or earlier" in text
        day_before = output_of(launch(loaded, instance, until="2024-01-01"))
        assert (day_before["since"], day_before["until"]) == (last_day["since"], last_day["until"])


def test_a_corrected_range_takes_its_place_while_the_stream_goes_on(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    loaded = handed_over(spark, case)
    answers = []

    def correct() -> None:
        # Two files of other rows: 300 to 499 are in the one, the rest of it is gone.
        case.write_history([*range(300), *range(300, 500, 2), *range(600, 1000)], files=1)
        for name in ("1", "2", "3"):
            (tmp_path / "in" / f"{name}.parquet").unlink()
        answers.append(call(loaded, 300, 540))
        case.produce(range(1200, 1400))

    run_live(spark, loaded, meanwhile=correct)
    [(status, answer)] = answers
    assert (status, answer["ok"]) == (0, True), answer
    assert (answer["removed"], answer["written"], answer["kept_live"]) == (240, 100, 0)
    ids = [*range(300), *range(300, 500, 2), *range(540, 1000), *range(1000, 1400), 5000]
    assert seen(tmp_path) == {n: n / 2 for n in ids}

    # From the UI: three partitions are one run; they are empty now, and that is no error.
    for path in (tmp_path / "in").glob("*.parquet"):
        path.unlink()
    case.write_history(range(300), files=1)
    case.write_history(range(600, 1000), files=1, name=lambda *_: "later.parquet")
    assets = pipeline_definitions(loaded).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        done = assets.execute_in_process(
            instance=instance,
            asset_selection=[ranges_key(loaded)],
            tags={
                "dagster/asset_partition_range_start": "2024-01-01-06:00",
                "dagster/asset_partition_range_end": "2024-01-01-08:00",
            },
        )
        assert done.success
        events = [event.materialization for event in done.get_asset_materialization_events()]
        assert [event.partition for event in events] == [
            f"2024-01-01-{hour:02}:00" for hour in (6, 7, 8)
        ]
        [check] = done.get_asset_check_evaluations()
        assert (check.check_name, check.passed, check.severity.value) == ("has_rows", False, "WARN")
        assert "no rows in 3 ranges of 3: 2024-01-01-06:00, " in str(check.description)
        assert result_of(done, instance) == "no rows"
        told = events[0].metadata
        assert (told["rows replaced"].value, told["dagster/row_count"].value) == (70, 0)
        assert seen(tmp_path) == {n: n / 2 for n in ids if not 360 <= n < 540}

        # From the form of any range: the next hour, of which no file has a row.
        hour = {"since": "2024-01-01T09:00:00Z", "until": "2024-01-01T10:00:00Z"}
        told = output_of(launch(loaded, instance, **hour, dry_run=False))
        assert (told["rows replaced"], told["rows written"]) == (60, 0)
    assert seen(tmp_path) == {n: n / 2 for n in ids if not 360 <= n < 600}


def test_a_late_row_that_files_have_and_the_topic_still_holds_comes_once(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history([*range(400), *range(401, 1000)])
    case.produce(range(1000, 1010))
    loaded = case.pipeline()
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    keep_definition(loaded, loaded.require_generation())
    # Rows that history has read are no late ones, whatever waits.
    status, answer = call(loaded, 0, 100)
    assert (status, answer["written"]) == (0, 100), answer

    # The row arrives late in the topic, and whoever archives it has put it into a file.
    case.produce([400])
    case.write_history([400], files=1, name=lambda *_: "late.parquet")
    status, answer = call(loaded, 300, 540)
    assert (status, answer["kind"]) == (2, "state"), answer
    assert answer["message"].startswith("1 row of the range is not in the table.")
    assert "(11 records are left)" in answer["message"]
    answers = []
    run_live(spark, loaded, meanwhile=lambda: answers.append(call(loaded, 300, 540)))
    [(status, answer)] = answers
    assert (status, answer["written"], answer["kept_live"]) == (0, 239, 1), answer
    assert seen(tmp_path) == {n: n / 2 for n in range(1010)}


def test_a_damaged_file_of_another_time_does_not_hold_up_a_range(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()  # 4 files of 250
    case.produce(range(1000, 1100))
    loaded = case.pipeline()
    run_history(spark, loaded)
    keep_definition(loaded, loaded.require_generation())
    # The first is corrected, the last one cut off.
    (tmp_path / "in" / "0.parquet").unlink()
    case.write_history(range(0, 250, 2), files=1)
    damaged = tmp_path / "in" / "3.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    status, answer = call(loaded, 700, 800)
    assert (status, answer["kind"], answer["fields"]["file"]) == (2, "input", str(damaged))
    status, answer = call(loaded, 0, 200)
    assert (status, answer["removed"], answer["written"]) == (0, 200, 100), answer
    assert seen(tmp_path) == {n: n / 2 for n in [*range(0, 200, 2), *range(200, 1000)]}


def test_a_range_is_recomputed_whose_rows_no_sample_of_the_files_has_and_one_without_rows(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "in").mkdir(exist_ok=True)
    # 5 MB: of JSON only the first and the last MiB are looked at.
    lines = [json.dumps({**json.loads(as_json(n)), "pad": "x" * 5_000}) for n in range(1000)]
    (tmp_path / "in" / "all.json").write_text("\n".join(lines) + "\n")
    case.produce(range(1000, 1100))
    columns = {"id": "bigint", "at": "timestamp", "v": "double"}
    files = {"path": "in/*.json", "format": "json", "schema": columns}

    def of_json(document: dict[str, Any]) -> None:
        document["sources"][0] |= files

    loaded = case.pipeline(of_json)
    run_history(spark, loaded)
    keep_definition(loaded, loaded.require_generation())
    status, answer = call(loaded, 480, 490)
    assert (status, answer["removed"], answer["written"]) == (0, 10, 10), answer
    status, answer = call(loaded, -60, -50)
    assert (status, answer["removed"], answer["written"]) == (0, 0, 0), answer
    assert seen(tmp_path) == {n: n / 2 for n in range(1000)}


def test_what_can_not_be_made_anew_on_its_own_is_refused(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(1000, 1100))
    loaded = case.pipeline()
    assert "has no state" in call(loaded, 0, 60)[1]["message"]
    run_history(spark, loaded)
    keep_definition(loaded, loaded.require_generation())
    status, answer = call(loaded, 60, 60)
    assert (status, "is empty." in answer["message"]) == (2, True)
    # 999 minus the allowed lateness of 100 minutes.
    assert "complete through 2024-01-01T14:59:00Z" in call(loaded, 0, 901)[1]["message"]
    assert seen(tmp_path) == {n: n / 2 for n in range(1000)}

    (tmp_path / "merged").mkdir()
    merged = Case(tmp_path / "merged", servers)
    merged.write_history()
    by_key = merged.pipeline(lambda document: document["sink"].update(mode="merge"))
    run_history(spark, by_key)
    refused = call(by_key, 0, 60)[1]
    assert "`events` merges rows by key" in refused["message"]
    assert "without `sink.sequence` it is unknown" in refused["message"]
