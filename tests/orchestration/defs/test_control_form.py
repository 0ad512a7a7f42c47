"""The form of the control job: an action with its own fields, or a text with fields beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from orchestration.defs.jobs.action_form import action_schema, read_form
from orchestration.defs.jobs.actions import Action
from orchestration.defs.jobs.control_form import ControlForm
from orchestration.defs.jobs.control_job import control_actions, control_job
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from tests.orchestration.supervision.live_case import LiveCase


def _count(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None: ...


ADDED = {
    "COUNT": Action(
        _count,
        "counts rows",
        {
            "keys": dg.Field(str, default_value=""),
            "columns": dg.Field([str], default_value=[]),
        },
    )
}


@pytest.fixture(autouse=True)
def _an_extension_adds_an_action(monkeypatch: pytest.MonkeyPatch) -> None:
    def contributions(what: str) -> list[Any]:
        return [lambda _: ADDED] if what == "actions" else []

    monkeypatch.setattr("orchestration.defs.jobs.control_job.contributions", contributions)


@pytest.fixture
def actions(tmp_path: Path) -> Mapping[str, Action]:
    return control_actions(LiveCase(tmp_path).loaded)


@pytest.fixture
def job(tmp_path: Path) -> dg.JobDefinition:
    return control_job(LiveCase(tmp_path).loaded)


def asked(job: dg.JobDefinition, actions: Mapping[str, Action], **form: Any) -> dict[str, Any]:
    """What is done, after Dagster has checked the form and filled in its defaults."""
    given = dg.validate_run_config(job, {"ops": {"do_events_control": {"config": form}}})
    config: dict[str, Any] = given["ops"]["do_events_control"]["config"]
    return read_form(config, actions, ControlForm).model_dump(exclude_defaults=True)


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ({"action": {"pause": {"why": "new"}}}, {"action": "PAUSE", "why": "new"}),
        (
            {"action": {"rate": {"offsets": 5, "source": "history"}}},
            {"action": "RATE", "offsets": 5, "source": "history"},
        ),
        (
            {"action": {"drain": {"within": "5 min", "generation": "g2"}}},
            {"action": "DRAIN", "within": "5 min", "generation": "g2"},
        ),
        (
            {"action": {"count": {"keys": "1%", "columns": ["id"]}}},
            {"action": "COUNT", "keys": "1%", "columns": ["id"]},
        ),
        ({"action": {"resume": {}}}, {"action": "RESUME"}),
        ({"action": {"stop": {}}}, {"action": "STOP", "by": "", "rows": None}),
    ],
)
def test_an_action_with_its_fields_and_the_text_with_fields_beside_it_ask_for_the_same(
    job: dg.JobDefinition,
    actions: Mapping[str, Action],
    typed: dict[str, Any],
    written: dict[str, Any],
) -> None:
    found, as_before = asked(job, actions, **typed), asked(job, actions, **written)
    source = {"source": "inbox"} if "rate" not in typed["action"] else {}
    assert {**source, **found} == {**source, **as_before}
    assert found["action"] == written["action"]


def test_without_an_action_it_only_shows_how_the_pipeline_is(
    job: dg.JobDefinition, actions: Mapping[str, Action]
) -> None:
    assert read_form({"action": {"status": {}}}, actions, ControlForm).action == "STATUS"
    assert asked(job, actions) == {}


@pytest.mark.parametrize(
    "form",
    [
        {"action": {"pause": {"offsets": 5}}},
        {"action": {"pause": {}, "resume": {}}},
        {"action": {"explode": {}}},
        {"action": {"rate": {"offsets": "many"}}},
        {"action": {"pause": {"by": "Ada"}}},
    ],
)
def test_fields_of_other_actions_are_refused_before_the_launch(
    job: dg.JobDefinition, actions: Mapping[str, Action], form: dict[str, Any]
) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError):
        asked(job, actions, **form)


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"action": "PAUZE"}, "`PAUZE` is not an action"),
        ({"action": "PAUSE", "whi": "new"}, "Field `whi` of the launch form"),
        ({"action": "RATE", "offsets": "many"}, "Field `offsets` of the launch form"),
    ],
)
def test_what_is_written_wrong_beside_a_text_is_refused_by_name(
    job: dg.JobDefinition, actions: Mapping[str, Action], form: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        asked(job, actions, **form)


def test_only_an_approval_asks_for_a_name(tmp_path: Path) -> None:
    loaded = LiveCase(tmp_path).loaded
    approved = replace(loaded, pipeline=loaded.pipeline.model_copy(update={"approve": True}))
    schema: Any = action_schema(control_actions(approved), "")
    actions = schema.fields["action"].config_type.non_scalar_type.fields
    with_name = [name for name, each in actions.items() if "by" in each.config_type.fields]
    assert with_name == ["approve"]
    assert all(each.description for each in actions.values())
