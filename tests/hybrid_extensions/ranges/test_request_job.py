"""Ranges of several pipelines as one run of Dagster, whose steps are the ranges."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from hybrid_extensions.ranges.request_job import NAME, RequestConfig, definitions, steps_of
from sources.config.loader import load_pipeline
from sources.errors import InputError
from tests.hybrid_extensions.ranges.test_request import declared

FORM = {"ranges": ["2023-12-02", "2023-12-04T06:00:00Z/2023-12-06"], "dry_run": False}
DAYS = ("20231202", "20231204T060000_20231206")
FILES = "TEST_REQUEST_FILES"


def job() -> dg.JobDefinition:
    """The job of the pipelines that the environment names, as Dagster's processes find it."""
    files = os.environ[FILES].split(os.pathsep)
    return definitions([load_pipeline(Path(each)) for each in files]).resolve_job_def(NAME)


def steps(done: Any, event: str) -> set[str]:
    found = done.filter_events(lambda each: each.event_type_value == event)
    return {str(each.step_key) for each in found}


def test_each_range_is_a_step_and_only_the_failed_ones_are_executed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [declared(tmp_path / name, name) for name in ("one", "two")]
    monkeypatch.setenv(FILES, os.pathsep.join(str(case.loaded.path) for case in cases))
    bad = cases[0].folder / "in" / "oops"
    bad.mkdir()
    (bad / "a.json").write_text("{}\n")
    of_one, of_two = ({f"range[{name}_{day}]" for day in DAYS} for name in ("one", "two"))
    with dg.instance_for_test() as instance:
        form = {"ops": {f"do_{NAME}": {"config": FORM}}}
        found = dg.reconstructable(job)
        with dg.execute_job(found, instance, form) as first:
            assert steps(first, "STEP_SUCCESS") - {f"do_{NAME}"} == of_two
            assert steps(first, "STEP_FAILURE") == of_one

        (bad / "a.json").unlink()
        bad.rmdir()
        failed = dg.ReexecutionOptions.from_failure(first.run_id, instance)
        with dg.execute_job(found, instance, form, reexecution_options=failed) as again:
            assert again.success
            assert steps(again, "STEP_SUCCESS") == of_one
        assert all(case.seen() == {1: 10} for case in cases)

        def begun() -> int:
            return sum(1 for _ in tmp_path.glob("*/**/ranges/*/"))

        before, whole = begun(), dg.ReexecutionOptions(again.run_id)
        with dg.execute_job(found, instance, form, reexecution_options=whole) as once_more:
            assert once_more.success
        # Of what has succeeded, somebody asks for another backfill: the files may have changed.
        assert begun() == 2 * before


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({}, "Field `ranges` of the launch form is empty. Nothing was done."),
        ({"ranges": ["2024-03"]}, "`2024-03` is not a range"),
        (
            {"ranges": ["2024-03-01"], "pipelines": ["one", "nine"]},
            "there is no pipeline `nine`. Nothing was done.",
        ),
    ],
)
def test_a_form_that_makes_no_sense_is_refused(form: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        steps_of(RequestConfig(**form), ["one", "two"])


def test_a_range_that_is_named_twice_is_one_step() -> None:
    twice = ["2024-03-01", "2024-03-01/2024-03-02", "2024-03-01/2024-03-03"]
    form = RequestConfig(ranges=twice, pipelines=["two"])
    assert [each.key for each in steps_of(form, ["one", "two"])] == [
        "two_20240301",
        "two_20240301_20240303",
    ]
