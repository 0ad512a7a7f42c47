"""The page of a plan begins with its summary, and repeats no number."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from orchestration.defs.show import plan_metadata
from orchestration.progress.expected_time import Estimate
from orchestration.progress.plan_preview import Change, Preview
from orchestration.progress.plan_summary import summary
from sources.planning.plan import Plan
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.progress.plan_case import (
    FILES,
    HISTORY,
    LIVE,
    files,
    folder,
    pipeline,
    plan,
    times,
    topic,
)

_SHOWN_INLINE = 1_000
"""Markdown of so many characters is hidden behind a link of Dagster's UI."""
# Of the 1440 pixels of a page, this many characters are left for a table's cells.
_MOST_COLUMNS = 5
EVERYTHING = plan(
    files("old"),
    files(rows=7, times=times(outside=3)),
    topic(source="archive", reading=10),
    topic(),
    warnings=("Beware.", "Of the dog."),
)
PLANS = {
    "everything": EVERYTHING,
    "usual": plan(files(), topic()),
    "topic only": plan(topic("none")),
    "files only": plan(files(rows=None)),
    "folder": plan(files(), folder()),
}


def seen(made: Plan) -> Preview:
    declared = pipeline(
        {**FILES, "name": "old"}, HISTORY, {**LIVE, "name": "archive", "until": "latest"}, LIVE
    )
    if made.folder is not None:
        declared = pipeline(HISTORY, {**FILES, "name": "live", "discovery_interval": "10 s"})
    count = {part.source: 273 for part in made.listed}
    estimate = Estimate(seconds=61, executor_hours=1, is_guess=True, basis="a guess")
    return Preview(
        summary=summary(declared, made, count, "s3://bucket/folder/table", estimate),
        files=count,
        estimate=estimate,
        schemas={"id": {"history": "bigint", "live": "bigint"}},
        previous="g1",
        changes=[Change(source="history", what="rows", before="1", now="2")],
    )


def shown(made: Plan) -> dict[str, object]:
    return plan_metadata.details(made, seen(made), "What is next.")


@pytest.mark.parametrize("made", PLANS.values(), ids=PLANS)
def test_the_summary_is_first_in_view_and_ends_with_what_is_next(
    made: Plan,
) -> None:
    found = shown(made)
    first = found["summary"]
    assert next(iter(found)) == "summary"
    assert isinstance(first, dg.MarkdownMetadataValue)
    assert first.md_str is not None
    assert first.md_str.endswith("\n\nWhat is next.")
    assert len(first.md_str) < _SHOWN_INLINE - len(plan_metadata.PREVIEW) - 100


def test_the_summary_says_how_to_carry_out_the_plan_until_something_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = GenerationCase(tmp_path)
    case.loaded.open_generation(create=True)
    monkeypatch.setattr(plan_metadata, "preview", lambda _, made: seen(made))

    def told(*, is_carried_out: bool = False) -> str:
        found = plan_metadata.plan(case.loaded, EVERYTHING, is_carried_out=is_carried_out)
        return str(found["summary"])

    assert plan_metadata.PREVIEW in told()
    assert "launch the job `events` with *Materialize all*." in told()
    assert "This plan is carried out" in told(is_carried_out=True), "by the run that made it"
    case.run({1: 10})
    assert "This plan is carried out" in told()
    assert "To carry out" not in told()


def test_numbers_that_are_plotted_are_not_those_of_the_summary() -> None:
    found = shown(EVERYTHING).items()
    numbers = {name: value for name, value in found if isinstance(value, int | float)}
    assert numbers == {"warnings (number)": 2, "retention headroom (h)": 24.0}


@pytest.mark.parametrize("made", PLANS.values(), ids=PLANS)
def test_tables_fit_a_page_and_have_rows(made: Plan) -> None:
    tables = [value for value in shown(made).values() if isinstance(value, dg.TableMetadataValue)]
    assert tables
    for found in tables:
        assert found.records
        assert len(found.schema.columns) <= _MOST_COLUMNS


def test_what_the_summary_says_of_a_single_source_is_not_repeated() -> None:
    assert "sources of files" in shown(EVERYTHING)
    assert "sources of files" not in shown(PLANS["usual"])


def test_warnings_are_in_view_however_long_they_are() -> None:
    found = shown(EVERYTHING)["warnings"]
    assert isinstance(found, dg.TableMetadataValue)
    assert [record.data["warning"] for record in found.records] == ["Beware.", "Of the dog."]
    assert "warnings" not in shown(PLANS["usual"])
