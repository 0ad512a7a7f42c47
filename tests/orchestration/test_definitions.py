"""Files that can't be loaded hold up no other pipeline, and are red in Dagster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.code_pointer import FileCodePointer
from dagster._core.definitions.definitions_load_context import (
    DefinitionsLoadContext,
    DefinitionsLoadType,
)
from dagster._core.definitions.reconstruct import (
    ReconstructableRepository,
    initialize_repository_def_from_pointer,
)

from orchestration.definitions import find_definitions
from orchestration.defs.assets.unloadable_pipeline import IS_INVALID
from tests.command_line import invoke
from tests.extensions import needs
from tests.orchestration.generations.generation_case import GenerationCase

JOBS = ("control", "generation", "backfill")
NOT_YAML = "name: [shop"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a pipeline that can be loaded."""
    GenerationCase(tmp_path).write()
    return tmp_path


def job_names(defs: dg.Definitions) -> set[str]:
    """Jobs of pipelines."""
    return {job.name for job in defs.jobs or [] if not job.name.endswith(IS_INVALID)}


def told(defs: dg.Definitions, sensor: str) -> str:
    """What a sensor reports as failed at its first tick, and no more at the second one."""
    [found] = [each for each in defs.sensors or [] if each.name == sensor]
    assert isinstance(found, dg.SensorDefinition)
    assert found.default_status is dg.DefaultSensorStatus.RUNNING
    with dg.build_sensor_context() as context:
        first = found.evaluate_tick(context)
    [event] = first.asset_events
    assert isinstance(event, dg.AssetCheckEvaluation)
    assert event.passed is False
    with dg.build_sensor_context(cursor=first.cursor) as context:
        assert found.evaluate_tick(context).asset_events == []
    assert event.description is not None
    return event.description


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (NOT_YAML, "Correct the place that the message names"),
        ("name: shop\nkey: [id\nsink: x", "  in line 2, column 6"),
        ("name: shop", "sources: this field is needed"),
        ("name: shop\ntables: 5", "tables"),
        ("services: {db: {image: postgres}}", "services: unknown field"),
    ],
)
def test_a_file_that_is_invalid_is_red_and_the_others_are_shown(
    folder: Path, text: str, reason: str
) -> None:
    alone = job_names(find_definitions([folder]))
    (folder / "my shop.yaml").write_text(text)
    found = find_definitions([folder])
    assert job_names(found) == alone != set()
    dg.Definitions.validate_loadable(found)
    description = told(found, "my_shop_file")
    assert str(folder / "my shop.yaml") in description
    assert reason in description
    assert "A live run of it, if one is active, goes on" in description, "there may be none"
    # Where people look for the pipeline: in the catalog, and on the page of jobs.
    [asset] = [each for each in found.assets or [] if isinstance(each, dg.AssetSpec)][-1:]
    assert (asset.key.path, asset.description) == (["my_shop", "file"], description)
    job = found.resolve_job_def(f"my_shop{IS_INVALID}")
    assert job.description == description
    failed = job.execute_in_process(raise_on_error=False)
    assert not failed.success
    [step] = [each for each in failed.all_events if each.is_step_failure]
    assert reason in str(step.step_failure_data.error)


@pytest.fixture
def run_of(folder: Path) -> Iterator[Callable[..., dg.ExecuteInProcessResult]]:
    """Runs a job in the process of a Dagster run, whose code location was loaded before."""
    file = folder / "location_of_runs.py"
    file.write_text(
        "from pathlib import Path\nfrom orchestration.definitions import find_definitions\n"
        f"defs = find_definitions([Path({str(folder)!r})])\n"
    )
    pointer = FileCodePointer(str(file), "defs", None)
    with DefinitionsLoadContext.scoped(DefinitionsLoadContext(DefinitionsLoadType.INITIALIZATION)):
        kept = initialize_repository_def_from_pointer(pointer).repository_load_data

        def run(
            job: str, config: Any = None, instance: dg.DagsterInstance | None = None
        ) -> dg.ExecuteInProcessResult:
            # Another process loads it again.
            del sys.modules[file.stem]
            there = ReconstructableRepository(pointer).with_repository_load_data(kept)
            found = there.get_definition().get_job(job)
            return found.execute_in_process(
                run_config=config, instance=instance, raise_on_error=False
            )

        yield run
    del sys.modules[file.stem]


@pytest.mark.parametrize("text", [NOT_YAML, "name: events"])
@pytest.mark.parametrize("job", ["events", "events_control", "events_generation", "__ASSET_JOB"])
def test_runs_of_a_file_that_is_invalid_since_fail_with_what_is_wrong_in_it(
    folder: Path, run_of: Callable[..., dg.ExecuteInProcessResult], text: str, job: str
) -> None:
    (folder / "events.yaml").write_text(text)
    failed = run_of(job)
    errors = [each.step_failure_data.error for each in failed.all_events if each.is_step_failure]
    told = [each for each in errors if each is not None]
    assert told
    assert all("events.yaml" in each.message and not each.stack for each in told)


@pytest.mark.parametrize("job", ["events", "events_control", "__ASSET_JOB"])
def test_runs_of_a_file_that_is_gone_since_fail_with_its_path(
    folder: Path, run_of: Callable[..., dg.ExecuteInProcessResult], job: str
) -> None:
    (folder / "events.yaml").unlink()
    failed = run_of(job)
    errors = [each.step_failure_data.error for each in failed.all_events if each.is_step_failure]
    assert errors
    assert all(
        each and "There is no file" in each.message and "events.yaml" in each.message
        for each in errors
    )


def test_runs_of_a_file_that_was_renamed_since_read_it_by_its_new_name(
    folder: Path, run_of: Callable[..., dg.ExecuteInProcessResult]
) -> None:
    GenerationCase(folder).run({1: 10})
    (folder / "events.yaml").rename(folder / "shop.yaml")
    assert run_of("events_control", control("STOP")).success


def test_stop_works_while_the_file_is_invalid_and_other_actions_say_so(
    folder: Path, run_of: Callable[..., dg.ExecuteInProcessResult]
) -> None:
    generation = GenerationCase(folder).run({1: 10})
    (folder / "events.yaml").write_text(NOT_YAML)
    with dg.DagsterInstance.ephemeral() as instance:
        stopped = run_of("events_control", control("STOP"), instance)
        told = "\n".join(each.user_message for each in instance.all_logs(stopped.run_id))
    assert stopped.success
    # So the check `healthy` goes on to tell what is wrong in the file.
    assert "How the pipeline is now can't be shown." in told
    assert "events.yaml" in told
    copy = generation.location("definition/events.yaml")
    assert invoke(["stop", copy]).exit_code == 0, "what the code location says once it is reloaded"
    failed = run_of("events_control", control("RATE"))
    [step] = [each for each in failed.all_events if each.is_step_failure]
    told = str(step.step_failure_data.error)
    assert "A live run, if one is active, goes on" in told
    assert "STOP of this job ends it even now" in told


def control(action: str) -> Any:
    """The filled-in form of the control job."""
    return {"ops": {"do_events_control": {"config": {"action": action}}}}


def test_a_pipeline_may_have_the_shorter_suffix_and_files_of_other_tools_are_none(
    folder: Path,
) -> None:
    (folder / "events.yaml").rename(folder / "events.yml")
    (folder / "compose.yml").write_text("services: {db: {image: postgres}}\n")
    found = find_definitions([folder])
    assert job_names(found) == {"events", *(f"events_{each}" for each in JOBS)}
    assert all(not job.name.endswith(IS_INVALID) for job in found.jobs or [])


def test_what_editors_leave_beside_a_file_is_no_pipeline(folder: Path) -> None:
    """Emacs locks a file by a link to nowhere, and macOS keeps attributes in a file."""
    alone = job_names(find_definitions([folder]))
    for name in (".#events.yaml", ".#events.yml", "no.yml"):
        (folder / name).symlink_to("me@host.1234")
    (folder / "._events.yaml").write_bytes(b"\x00\x05\x16\x07")
    found = find_definitions([folder])
    assert job_names(found) == alone
    assert all(not job.name.endswith(IS_INVALID) for job in found.jobs or [])


def test_of_two_files_with_one_name_the_second_is_red(folder: Path) -> None:
    [file] = folder.glob("*.yaml")
    alone = job_names(find_definitions([folder]))
    (folder / "zz.yaml").write_text(file.read_text())
    found = find_definitions([folder])
    assert job_names(found) == alone
    assert f"is also that of {file}" in told(found, "zz_file")


NIGHTLY = {"cron": "0 3 * * *"}


@needs("generations")
@needs("upkeep")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "type"}, '"type" is not a valid name in Dagster'),
        ({"name": "class"}, '"class" is not a valid name in Dagster'),
        (
            {
                "upkeep": [
                    {**NIGHTLY, "name": "a", "action": each} for each in ("compact", "vacuum")
                ]
            },
            "events_a",
        ),
        ({"upkeep": [{**NIGHTLY, "name": "supervision", "action": "vacuum"}]}, "supervision"),
    ],
)
def test_a_name_that_dagster_refuses_holds_up_no_other_pipeline(
    folder: Path, changes: dict[str, Any], reason: str
) -> None:
    text = (folder / "events.yaml").read_text()
    (folder / "events.yaml").write_text(text.replace("name: events", "name: others"))
    (folder / "events.yaml").rename(folder / "others.yaml")
    alone = job_names(find_definitions([folder]))
    GenerationCase(folder).write(**changes)
    found = find_definitions([folder])
    dg.Definitions.validate_loadable(found)
    assert job_names(found) == alone
    description = told(found, "events_file")
    assert reason in description
    assert "another `name`" in description


@needs("generations")
@needs("upkeep")
@pytest.mark.parametrize(
    ("changes", "other"),
    [
        ({}, "events_control"),
        ({}, "events_generation"),
        ({"upkeep": [{**NIGHTLY, "name": "eu_supervision", "action": "vacuum"}]}, "events_eu"),
    ],
)
def test_a_job_or_schedule_of_a_pipeline_takes_no_name_of_another_one(
    folder: Path, changes: dict[str, Any], other: str
) -> None:
    GenerationCase(folder).write(**changes)
    alone = job_names(find_definitions([folder]))
    text = (folder / "events.yaml").read_text()
    (folder / "zz.yaml").write_text(text.replace("name: events", f"name: {other}"))
    found = find_definitions([folder])
    dg.Definitions.validate_loadable(found)
    assert job_names(found) == alone
    assert f"is also that of {folder / 'events.yaml'}" in told(found, "zz_file")


@needs("ranges")
def test_a_pipeline_may_be_called_all(folder: Path) -> None:
    text = (folder / "events.yaml").read_text()
    (folder / "zz.yaml").write_text(text.replace("name: events", "name: all"))
    found = find_definitions([folder])
    dg.Definitions.validate_loadable(found)
    assert {"events", "all", "all_backfill"} <= job_names(found)


def test_an_invalid_file_with_the_name_of_a_pipeline_is_red_beside_it(folder: Path) -> None:
    text = (folder / "events.yaml").read_text().replace("name: history", "name: file")
    (folder / "a.yaml").write_text(text)
    (folder / "events.yaml").write_text(NOT_YAML)
    found = find_definitions([folder])
    dg.Definitions.validate_loadable(found)
    assert "events" in job_names(found)
    assert str(folder / "events.yaml") in told(found, "events_1_file")


@needs("ranges")
def test_several_pipelines_have_one_job_for_ranges_of_them(folder: Path) -> None:
    assert "all_backfill" not in job_names(find_definitions([folder]))
    [file] = folder.glob("*.yaml")
    (folder / "second.yaml").write_text(file.read_text().replace("events", "second"))
    (folder / "wrong.yaml").write_text(NOT_YAML)
    found = find_definitions([folder])
    dg.Definitions.validate_loadable(found)
    assert "all_backfill" in job_names(found)


def test_two_files_that_are_invalid_have_their_own_names(folder: Path) -> None:
    for name in ("a-b", "a_b", "c"):
        (folder / f"{name}.yaml").write_text(NOT_YAML)
    found = find_definitions([folder])
    dg.Definitions.validate_loadable(found)
    for sensor, file in (
        ("a_b_file", "a-b.yaml"),
        ("a_b_1_file", "a_b.yaml"),
        ("c_file", "c.yaml"),
    ):
        assert str(folder / file) in told(found, sensor)


def test_a_file_that_is_not_there_is_red(folder: Path) -> None:
    found = find_definitions([folder, folder / "gone.yaml", folder / "more" / "gone.yaml"])
    dg.Definitions.validate_loadable(found)
    assert "gone.yaml" in told(found, "gone_file")
    assert str(folder / "more") in told(found, "gone_1_file")
