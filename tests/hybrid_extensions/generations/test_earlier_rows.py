"""A generation that served before has no rows in the table: those of others are not taken for its.

Otherwise a verdict on the table that serves now would be kept as one on the earlier table, which
a rollback brings back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.audit import inputs
from hybrid_extensions.audit.expected_and_target import create_sides
from hybrid_extensions.audit.run import audit
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.comparison.duckdb_database import open_database
from hybrid_extensions.training.point_in_time import open_history
from orchestration.comparison.kept_audit import last_audit, read_audit
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.generations import acting_on, begin
from sources.state.generation import read_generation
from tests.command_line import invoke
from tests.hybrid_extensions.generations.test_generations import NEW, OLD, call, two
from tests.orchestration.generations.generation_case import GenerationCase


def lines_of(values: dict[int, int]) -> str:
    """What history holds of the rows."""
    rows = [{"id": key, "at": "2024-01-01T00:00:00Z", "v": value} for key, value in values.items()]
    return "\n".join(map(json.dumps, rows))


def compared_after_a_promotion_that_came_meanwhile(loaded: LoadedPipeline) -> object:
    """What an audit does once it has read all of the input, which takes long."""
    folder = loaded.folder / "scratch"
    folder.mkdir()
    with open_database(folder, "1GB") as connection:
        connection.execute("CREATE VIEW input AS SELECT 1::BIGINT AS id, 2::BIGINT AS v")
        return create_sides(connection, loaded, None, {})


def test_no_verdict_on_an_earlier_generation_is_kept(tmp_path: Path) -> None:
    case = two(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(lines_of(NEW))
    call(case, "promote")
    shown = invoke(["audit", str(case.loaded.path), "--generation", "g1"])
    assert "served before: the table has the rows of g2 by now" in " ".join(shown.output.split())
    assert invoke(["audit", str(case.loaded.path)]).exit_code == 0
    call(case, "rollback")
    assert last_audit(case.loaded) is None
    assert invoke(["audit", str(case.loaded.path)]).exit_code == 1


@pytest.mark.parametrize(
    "look",
    [audit, compare_with_source, open_history, compared_after_a_promotion_that_came_meanwhile],
)
def test_rows_of_an_earlier_generation_are_not_looked_at(
    tmp_path: Path, look: Callable[[LoadedPipeline], object]
) -> None:
    case = two(tmp_path)
    call(case, "promote")
    with pytest.raises(StateError, match="Generation g1 of pipeline `events` served before"):
        look(acting_on(case.loaded, "g1"))


def test_a_candidate_that_is_begun_during_an_audit_does_not_get_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = GenerationCase(tmp_path)
    case.run(NEW)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(lines_of(NEW))

    def meanwhile(*given: Any) -> inputs.Inputs:
        begin(case.loaded)
        case.run(OLD)
        return create_inputs(*given)

    create_inputs = inputs.create_inputs
    monkeypatch.setattr(inputs, "create_inputs", meanwhile)
    done = invoke(["audit", str(case.loaded.path)])
    assert done.exit_code == 0, done.output
    kept = {name: read_audit(read_generation(case.loaded.state, name)) for name in ("g1", "g2")}
    assert kept["g2"] is None
    assert kept["g1"] is not None
    assert kept["g1"].outcome == "passed"
