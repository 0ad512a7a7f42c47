"""In Dagster a hint names jobs and assets that are there, and not commands with placeholders."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from orchestration.defs.show.dagster_remedies import in_dagster, verdict_in_dagster
from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.remedies import program
from orchestration.supervision.rules.verdict import Finding, Verdict
from sources.config.loader import LoadedPipeline
from sources.planning.approval import HOW_TO_APPROVE
from tests.extensions import needs
from tests.orchestration.supervision.live_case import LiveCase

ROOT = Path(__file__).parents[3]


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedPipeline:
    return LiveCase(tmp_path).loaded


@pytest.mark.parametrize(
    ("told", "instead"),
    [
        ("`hybrid run P`", "the job `events`"),
        ("`hybrid plan P`", "the asset `events/plan`"),
        ("`hybrid snapshot P`", "the asset `events/take_snapshot`"),
        ("`hybrid step P live_handover`", "the asset `events/live_handover`"),
        ("`hybrid resume P`", "the job `events_control` with the action RESUME"),
        (
            "`hybrid stop P --generation g2`",
            "the job `events_control` with the action STOP and `generation: g2`",
        ),
        ("`hybrid approve P --by NAME`", "the job `events_control` with the action APPROVE"),
        (
            "`hybrid repair P --apply`",
            "the job `events_control` with the action REPAIR and `apply: true`",
        ),
        ("`hybrid generation new P`", "the job `events_generation` with the action NEW"),
        ("`hybrid rerun P`", "the job `events_generation` with the action RERUN"),
        pytest.param(
            "`hybrid backfill P --since … --until …`",
            "the job `events_backfill`",
            marks=needs("ranges"),
        ),
        ("`hybrid generation list P`", "the asset `events/table`"),
        ("`hybrid logs P --previous`", "`{hybrid} logs {file} --previous`"),
        ("`hybrid audit P`", "the job `events_control` with the action AUDIT"),
        ("`hybrid logs P`", "`{hybrid} logs {file}`"),
        ("`hybrid run P --until caught-up`", "`{hybrid} run {file} --until caught-up`"),
        ("`hybrid broker`", "`hybrid broker`"),
        (
            HOW_TO_APPROVE,
            "Read the plan (the asset `events/plan`), then approve it: the job `events_control` "
            "with the action APPROVE.",
        ),
    ],
)
def test_a_command_is_named_by_its_job_or_by_the_pipelines_real_file(
    loaded: LoadedPipeline, told: str, instead: str
) -> None:
    shown = instead.format(file=loaded.path, hybrid=program())
    assert in_dagster(told, loaded) == shown


def test_no_command_in_any_message_keeps_a_placeholder_or_names_a_job_that_is_not_there(
    loaded: LoadedPipeline,
) -> None:
    made = pipeline_definitions(loaded)
    jobs = {job.name for job in made.jobs or [] if not isinstance(job, str)}
    assert "events_control" in jobs
    files = [
        file
        for room in ("sources", "spark_jobs", "orchestration", "hybrid_extensions")
        for file in (ROOT / room).rglob("*.py")
        if file.parent.name != "cli"
    ]
    texts = "".join(file.read_text() for file in files)
    commands = set(re.findall(r"`hybrid [a-z][^`{}\"]*`", texts))
    assert len(commands) > 40
    for command in sorted(commands):
        told = in_dagster(command, loaded)
        assert not re.search(r"\b(P|PIPELINE)\b", told), command
        for job in re.findall(r"the job `(.*?)`", told):
            assert job in jobs, command


def test_a_verdict_and_each_of_its_findings_are_told_so(loaded: LoadedPipeline) -> None:
    text = "Start the run with `hybrid resume P`."
    verdict = Verdict(
        health="failed",
        reason=text,
        error=text,
        findings=[Finding(name="alive", passed=False, text=text)],
    )
    told = verdict_in_dagster(verdict, loaded)
    assert [told.reason, told.error, told.findings[0].text] == [
        "Start the run with the job `events_control` with the action RESUME."
    ] * 3


def test_a_command_for_a_shell_brings_the_paths_that_dagster_has_and_names_other_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my shop").mkdir()
    case = LiveCase(tmp_path / "my shop")
    file = case.loaded.path
    text = file.read_text()
    with_variables = text.replace("name: events", "name: ${SHOP_NAME}\nstate: ${SHOP_STATE:-state}")
    file.write_text(
        "\n".join(line for line in with_variables.splitlines() if line != "state: state")
    )
    monkeypatch.setenv("SHOP_NAME", "events")
    monkeypatch.setenv("SHOP_STATE", str(tmp_path / "the state"))
    monkeypatch.setenv("HYBRID_BROKER_FILE", "/run/broker.json")
    told = in_dagster("`hybrid logs P`", case.loaded)
    line, named = told.removeprefix("`").split("`")
    assert named == " (with SHOP_NAME as Dagster has it)"
    words = shlex.split(line)
    assert words[-3:] == [program(), "logs", str(file)]
    assert {"HYBRID_BROKER_FILE=/run/broker.json", f"SHOP_STATE={tmp_path}/the state"} <= {*words}


def test_a_topic_is_created_at_the_broker_that_dagster_reads(
    loaded: LoadedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell without the variable would start a second broker, which no pipeline reads."""
    monkeypatch.setenv("HYBRID_BROKER_FILE", "/srv/a b/broker.json")
    told = in_dagster("Create the topic (`hybrid broker --topic orders`).", loaded)
    [command] = re.findall("`(.*)`", told)
    assert shlex.split(command) == [
        "HYBRID_BROKER_FILE=/srv/a b/broker.json",
        "hybrid",
        "broker",
        "--topic",
        "orders",
    ]
