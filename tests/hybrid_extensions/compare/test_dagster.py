"""The check that says whether a captured table has the rows of the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from hybrid_extensions.cdc.compared.kept_compare import (
    ComparedRange,
    KeptCompare,
    keep_compare,
    keep_repaired,
    keep_whole,
    read_compare,
)
from hybrid_extensions.compare.dagster import compare_checks
from hybrid_extensions.compare.declare import EQUALS
from orchestration.defs.keys import ACTION_TAG, table_key
from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.supervision.status import status
from sources.config.loader import load_pipeline
from sources.errors import InputError
from tests.captured_table import captured_table


def test_a_schedule_asks_for_the_comparison_that_the_check_shows(tmp_path: Path) -> None:
    loaded = captured_table(tmp_path, compare={"cron": "0 2 * * *"})
    defs = pipeline_definitions(loaded)
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
        schedule = defs.resolve_schedule_def("orders_compare")
        tick = schedule.evaluate_tick(dg.build_schedule_context(instance=instance))
        [asked] = tick.run_requests or []
    assert asked.tags[ACTION_TAG] == "COMPARE"
    assert asked.run_config["ops"]["do_orders_control"]["config"] == {"action": "COMPARE"}
    keys = {key for each in defs.asset_checks or [] for key in each.check_keys}
    assert dg.AssetCheckKey(table_key(loaded), EQUALS) in keys


def test_without_a_declaration_there_is_no_check(tmp_path: Path) -> None:
    assert compare_checks(captured_table(tmp_path)) == []


def test_a_difference_keeps_check_and_status_red_though_the_run_can_not_be_judged(
    tmp_path: Path,
) -> None:
    loaded = captured_table(tmp_path, compare={"cron": "0 2 * * *"})
    generation = loaded.open_generation(create=True)
    assert generation is not None
    assert status(loaded).healthy
    found = ComparedRange(
        first=None,
        until=None,
        at_ms=1,
        rows=9,
        differing=1,
        examples=['{"id":3} differs in v'],
    )
    keep_compare(generation, KeptCompare(begun_ms=1, finished_ms=1, ranges=[found]))
    [check] = compare_checks(loaded)
    result = check()
    assert isinstance(result, dg.AssetCheckResult)
    assert not result.passed
    assert '1 key differs: {"id":3} differs in v' in str(result.description)
    assert "Postponed: the live run was not requested" in str(result.description)
    assert result.severity == dg.AssetCheckSeverity.ERROR
    seen = status(loaded)
    assert seen.compared is not None
    assert not seen.healthy


def test_a_difference_that_was_repaired_since_warns_until_it_is_compared_again(
    tmp_path: Path,
) -> None:
    loaded = captured_table(tmp_path, compare={"cron": "0 2 * * *"})
    generation = loaded.open_generation(create=True)
    assert generation is not None
    keep_repaired(generation, 5)
    assert read_compare(generation) is None
    found = ComparedRange(first=None, until=None, at_ms=1, rows=9, differing=1, examples=[])
    keep_compare(generation, KeptCompare(begun_ms=1, finished_ms=1, ranges=[found]))
    keep_repaired(generation, 5)
    [check] = compare_checks(loaded)
    result = check()
    assert isinstance(result, dg.AssetCheckResult)
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "1 key differs. Rows that differ were repaired since:" in str(result.description)
    assert "hybrid compare P" not in str(result.description)
    kept = read_compare(generation)
    assert kept is not None
    assert (status(loaded).healthy, kept.is_answered) == (True, False)
    # Found again after it.
    keep_whole(generation, found.model_copy(update={"at_ms": 6}), 6)
    assert not status(loaded).healthy


def test_an_answer_that_is_old_or_not_there_warns(tmp_path: Path) -> None:
    loaded = captured_table(tmp_path, compare={"cron": "0 2 * * *"})
    generation = loaded.open_generation(create=True)
    assert generation is not None
    [check] = compare_checks(loaded)

    def warns_that() -> str:
        result = check()
        assert isinstance(result, dg.AssetCheckResult)
        assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
        return str(result.description)

    never = warns_that()
    assert "has not been compared as a whole yet" in never
    assert "all are equal" not in never
    equal = ComparedRange(first=None, until=None, at_ms=1, rows=9, differing=0, examples=[])
    kept = KeptCompare(begun_ms=1, finished_ms=1, ranges=[equal])
    keep_compare(generation, kept)
    assert kept.is_answered
    old = warns_that()
    assert "last compared with the database at 1970-01-01" in old
    assert "Postponed: the live run was not requested." in old
    # One that goes on, and has not reached the end of the table, says nothing of the rest.
    assert not KeptCompare(begun_ms=1, at="7", ranges=[equal]).is_answered


@pytest.mark.parametrize(("differing", "result"), [(1, "1 key differs"), (0, "not all compared")])
def test_lists_of_runs_say_what_a_comparison_found_that_did_not_fail(
    tmp_path: Path, differing: int, result: str
) -> None:
    loaded = captured_table(tmp_path, compare={"cron": "0 2 * * *"})
    generation = loaded.open_generation(create=True)
    assert generation is not None
    found = ComparedRange(first=None, until=None, at_ms=1, rows=9, differing=differing, examples=[])
    keep_compare(generation, KeptCompare(begun_ms=1, finished_ms=1, ranges=[found]))
    job = pipeline_definitions(loaded).resolve_job_def("orders_control")
    form: dict[str, Any] = {"ops": {"do_orders_control": {"config": {"action": {"compare": {}}}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(form, instance=instance)
        run = instance.get_run_by_id(done.run_id)
    assert run is not None
    assert (done.success, run.tags["hybrid/result"]) == (True, result)


def test_a_difference_without_examples_is_a_whole_sentence() -> None:
    found = ComparedRange(first=None, until=None, at_ms=1, rows=9, differing=3, examples=[])
    kept = KeptCompare(begun_ms=1, finished_ms=1, ranges=[found])
    assert kept.text.endswith("Of 9 rows 3 keys differ.")


def test_only_a_captured_table_can_be_compared(tmp_path: Path) -> None:
    path = captured_table(tmp_path, compare={"cron": "0 2 * * *"}).path
    document = yaml.safe_load(path.read_text())
    del document["sources"][0]["snapshot"]
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(InputError, match="none declares a `snapshot`"):
        load_pipeline(path)
