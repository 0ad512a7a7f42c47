"""What a promotion would change, in one line, as a verdict and as numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from rich.console import Console

from hybrid_extensions.generations import metadata as generation_metadata
from hybrid_extensions.generations import terminal as generations_shown
from hybrid_extensions.generations.comparison.compare_generations import (
    GenerationComparison,
    compare_generations,
)
from hybrid_extensions.generations.switch import promotion
from orchestration.comparison.installed_audit import query_misfit
from orchestration.operations import chain_plan
from sources.errors import StateError
from sources.generations import begin
from sources.serving import target_of
from tests.command_line import invoke
from tests.extensions import needs
from tests.hybrid_extensions.generations.test_generations import OLD, call, two
from tests.orchestration.generations.generation_case import GenerationCase
from tests.sources.decoding.value_case import changes_source

SAME = GenerationComparison(
    pipeline="events",
    serving="g1",
    candidate="g2",
    rows={"g1": 184_000, "g2": 184_000},
    missing=0,
    added=0,
    changed=0,
    columns_missing=[],
    columns_added=[],
    types_changed={},
    examples={},
)


@pytest.mark.parametrize(
    ("change", "text", "passed", "is_same"),
    [
        ({}, "184,000 = 184,000 rows, 0 changed", True, True),
        (
            {"columns_added": ["vip"]},
            "184,000 = 184,000 rows, 0 changed, +1 column `vip`",
            True,
            False,
        ),
        ({"changed": 7}, "184,000 = 184,000 rows, 7 changed", False, False),
        (
            {"added": 1_200, "rows": {"g1": 184_000, "g2": 185_200}},
            "185,200 > 184,000 rows, 1,200 added, 0 changed",
            True,
            False,
        ),
        (
            {"missing": 5, "added": 2, "rows": {"g1": 184_000, "g2": 183_997}},
            "183,997 < 184,000 rows, 5 missing, 2 added, 0 changed",
            False,
            False,
        ),
        (
            {"columns_missing": ["a", "b"]},
            "184,000 = 184,000 rows, 0 changed, -2 columns `a`, `b`",
            False,
            False,
        ),
        (
            {"types_changed": {"v": ("long", "double")}},
            "184,000 = 184,000 rows, 0 changed, `v` is double instead of long",
            False,
            False,
        ),
    ],
)
def test_a_comparison_passes_if_readers_lose_nothing_and_is_summarized_in_a_line(
    change: dict[str, Any], text: str, passed: bool, is_same: bool
) -> None:
    found = replace(SAME, **change)
    assert found.text == f"g2 against g1: {text}"
    assert (found.passed, found.is_same) == (passed, is_same)


def test_a_comparison_counts_differences_by_column_and_shows_how_numbers_moved(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    found = compare_generations(case.loaded)
    [v] = found.columns
    assert (v.column, v.changed) == ("v", 1)
    assert v.moved == "lowest 10 to 20, median 20 to 31, mean 20 to 30.3333, highest 30 to 40"
    assert "1 changed (`v` in 1)" in found.text
    shown = " ".join(invoke(["generation", "compare", str(case.loaded.path)]).output.split())
    assert re.search(f"To let readers see g2: `[^`]*generation promote {case.loaded.path}`;", shown)
    assert "mean 20 to 30.3333" in shown
    [row] = generation_metadata.comparison(found)["columns"].records
    assert row.data == {"column": "v", "changed rows": 1, "values": v.moved}


def test_a_generation_that_was_rolled_back_is_compared_with_nothing(tmp_path: Path) -> None:
    case = two(tmp_path)
    promotion.promote(case.loaded)
    promotion.roll_back(case.loaded)
    with pytest.raises(StateError, match="has no candidate") as refused:
        compare_generations(case.loaded)
    assert "`hybrid generation rollback P`" in refused.value.hint


def test_of_equal_tables_no_column_is_named_whatever_its_numbers(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    rows = {number: number * 7 % 1000 for number in range(5000)}
    case.run(rows)
    begin(case.loaded)
    case.run(dict(reversed(rows.items())))
    assert compare_generations(case.loaded).columns == []


@pytest.mark.parametrize(
    ("query", "misfit"),
    [
        ("SELECT id, v FROM input", None),
        *(
            pytest.param(*pair, marks=needs("audit"))
            for pair in (
                (
                    "SELECT id, v AS w FROM history",
                    "differ in their columns; only in `audit.sql`: w; only",
                ),
                ("SELECT id, v, vip FROM input", '"vip" not found'),
                (
                    "SELECT id, CAST(v AS TEXT) AS v FROM input",
                    "Column `v` is VARCHAR in `audit.sql`",
                ),
            )
        ),
    ],
)
def test_before_a_promotion_the_query_of_the_audit_is_tried_against_the_candidate(
    tmp_path: Path, query: str, misfit: str | None
) -> None:
    case = GenerationCase(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"id": 1, "at": "2024-01-01T00:00:00Z", "v": 1}\n')
    (tmp_path / "events.sql").write_text(query)
    case.write(audit={"sql": "events.sql"})
    case.run({1: 1})
    begin(case.loaded)
    chain_plan.plan(case.loaded)
    case.run({1: 2})
    said: list[str] = []
    found = compare_generations(case.loaded)
    assert found.not_ready is None
    promotion.promote(case.loaded, say=said.append)
    warned = [line for line in said if line.startswith("Warning: an audit of g2 would be refused")]
    if misfit is None:
        assert (found.audit_misfit, warned) == (None, [])
        return
    assert misfit in str(found.audit_misfit)
    assert misfit in warned[0]
    assert misfit in generation_metadata.comparison(found)["audit of the candidate"]


@pytest.mark.parametrize(
    "changes",
    [
        # No query: an audit was never possible.
        {"sink": {"path": "out", "mode": "merge", "key": ["id"]}},
        # A name that the audit needs itself.
        {"audit": {"sql": "events.sql"}, "named": "input"},
    ],
)
def test_a_promotion_warns_of_nothing_that_can_not_be_tried(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    case = GenerationCase(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"id": 1, "at": "2024-01-01T00:00:00Z", "v": 1}\n')
    (tmp_path / "events.sql").write_text("SELECT id, v AS w FROM input")
    if (name := changes.pop("named", None)) is not None:
        [source] = yaml.safe_load((tmp_path / "events.yaml").read_text())["sources"]
        changes["sources"] = [{**source, "name": name}]
    case.write(**changes)
    loaded = case.loaded
    assert loaded.open_generation(create=True) is not None
    plan = chain_plan.plan(loaded)
    write_deltalake(target_of(loaded, "g1").url, pa.table({"id": [1], "v": [1]}))
    assert plan.files
    assert query_misfit(loaded, "g1") is None


def test_the_numbers_are_those_of_the_two_tables(tmp_path: Path) -> None:
    found = compare_generations(two(tmp_path).loaded)
    assert found.numbers == {
        "rows that readers see": 3,
        "rows of the candidate": 3,
        "missing": 1,
        "added": 1,
        "changed": 1,
    }
    assert not found.passed


def test_a_column_of_another_type_is_told_even_if_no_value_differs(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.run(OLD)
    begin(case.loaded)
    case.run({key: float(value) for key, value in OLD.items()})  # type: ignore[misc]
    found = compare_generations(case.loaded)
    assert found.types_changed == {"v": ("long", "double")}
    assert (found.changed, found.passed) == (0, False)


def test_the_command_line_begins_with_that_line(tmp_path: Path) -> None:
    case = two(tmp_path)
    told = "g2 against g1: 3 = 3 rows, 1 missing, 1 added, 1 changed (`v` in 1)"
    done = invoke(["generation", "compare", str(case.loaded.path)])
    assert done.stdout.splitlines()[0] == told
    document = call(case, "compare")
    assert (document["text"], document["passed"], document["ok"]) == (told, False, True)


def test_which_change_a_row_is_of_is_no_difference(tmp_path: Path) -> None:
    loaded = two(tmp_path).loaded
    changes = changes_source({"id": "bigint"}, include={"v": "lsn"})
    pipeline = loaded.pipeline.model_copy(update={"sources": [changes]})
    found = compare_generations(replace(loaded, pipeline=pipeline))
    assert (found.missing, found.added, found.changed) == (1, 1, 0)


def test_a_comparison_with_a_candidate_that_is_on_its_way_says_so(tmp_path: Path) -> None:
    """Rows are missing then which will come: a promotion that it offers would be refused."""
    case = GenerationCase(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"id": 1, "at": "2024-01-01T00:00:00Z", "v": 1}\n')
    case.run({1: 1, 2: 1})
    begin(case.loaded)
    chain_plan.plan(case.loaded)
    generation = case.run({1: 1})
    generation.delete("positions/history-end.json")
    found = compare_generations(case.loaded)
    why = "Generation g2 can't be promoted: it has not read `history` to its end."
    assert (found.missing, found.not_ready) == (1, why)
    assert why in generation_metadata.comparison(found)["compare again later"]
    console = Console(record=True, width=200)
    console.print(generations_shown.comparison(found))
    told = console.export_text()
    assert f"Compare again later: {why}" in told
    assert "Once that is done, to let readers see g2" in told
    assert generation_metadata.next_step(found).startswith("Once it is ready, to let readers see")
