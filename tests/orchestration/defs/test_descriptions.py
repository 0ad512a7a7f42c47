"""What Dagster shows in tooltips and lists is plain, and its links lead to what is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from orchestration.defs.keys import PIPELINE_TAG
from orchestration.pipeline_definitions import pipeline_definitions
from tests.extensions import needs
from tests.orchestration.generations.generation_case import GenerationCase

pytestmark = needs("ranges")

NIGHTLY = {"name": "nightly", "cron": "0 3 * * *"}


@pytest.fixture
def made(tmp_path: Path) -> dg.Definitions:
    case = GenerationCase(tmp_path)
    ranges = {"by": "day", "start": "2024-01-01", "reruns": [{**NIGHTLY, "name": "days"}]}
    case.write(generations={"reruns": [NIGHTLY]}, ranges=ranges, approve=True)
    return pipeline_definitions(case.loaded)


def descriptions(made: dg.Definitions) -> Iterator[tuple[str, str]]:
    graph, repository = made.resolve_asset_graph(), made.get_repository_def()
    for key in graph.get_all_asset_keys():
        if graph.get(key).is_materializable:
            yield key.to_user_string(), graph.get(key).description or ""
    for check in made.asset_checks or []:
        for spec in check.check_specs:
            yield spec.name, spec.description or ""
    for job in made.resolve_all_job_defs():
        if not job.name.startswith("__"):
            yield job.name, job.description or ""
    yield from ((each.name, each.description or "") for each in repository.sensor_defs)
    yield from ((each.name, each.description or "") for each in repository.schedule_defs)


def test_the_first_sentence_of_each_description_has_no_markdown(made: dg.Definitions) -> None:
    told = dict(descriptions(made))
    assert len(told) >= 15
    for name, text in told.items():
        first = re.split(r"(?<=[.:])\s", text)[0]
        assert first, f"{name} has no description"
        assert not re.search(r"[*`\[\]]", first), f"{name}: {first}"


def test_no_description_names_a_command_with_a_placeholder(made: dg.Definitions) -> None:
    for name, text in descriptions(made):
        assert not re.search(r"`hybrid [^`]*\bP\b", text), f"{name}: {text}"


def test_the_links_of_the_tables_page_lead_to_its_jobs_and_assets(made: dg.Definitions) -> None:
    text = dict(descriptions(made))["events/table"]
    jobs = {job.name for job in made.resolve_all_job_defs()}
    linked = set(re.findall(r"\(/guess/(\w+)\)", text))
    assert len(linked) >= 3
    assert linked == {name for name in jobs if not name.startswith("__")}
    keys = {each.to_user_string() for each in made.resolve_asset_graph().get_all_asset_keys()}
    assets = set(re.findall(r"\(/assets/([\w/]+)\)", text))
    assert len(assets) == 4
    assert assets <= keys
    assert "(/automation): events_nightly, events_days." in text
    there = {each.name for each in made.get_repository_def().schedule_defs}
    assert {"events_nightly", "events_days"} <= there


def test_the_jobs_of_a_pipeline_have_its_name_as_a_tag_so_that_lists_can_be_filtered(
    made: dg.Definitions,
) -> None:
    tags = {
        job.name: job.tags.get(PIPELINE_TAG)
        for job in made.resolve_all_job_defs()
        if not job.name.startswith("__")
    }
    assert tags == dict.fromkeys(
        ["events", "events_control", "events_generation", "events_backfill"], "events"
    )


def test_the_job_says_where_a_table_is_whose_path_is_relative(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.write(sink={"path": "out", "mode": "merge", "key": ["id"]})
    text = dict(descriptions(pipeline_definitions(case.loaded)))["events"]
    assert f"Writes to the Delta table `{tmp_path / 'out'}`" in text
