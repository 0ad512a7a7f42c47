"""A generation that served before has no rows in the table: those of others are not taken for its.

Otherwise a verdict on the table that serves now would be kept as one on the earlier table, which
a rollback brings back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hybrid_extensions.audit.expected_and_target import create_sides
from hybrid_extensions.audit.run import audit
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.comparison.duckdb_database import open_database
from hybrid_extensions.training.point_in_time import open_history
from orchestration.comparison.kept_audit import last_audit
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.generations import acting_on
from tests.command_line import invoke
from tests.hybrid_extensions.generations.test_generations import NEW, call, two


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
    rows = [{"id": key, "at": "2024-01-01T00:00:00Z", "v": value} for key, value in NEW.items()]
    (tmp_path / "in" / "a.json").write_text("\n".join(map(json.dumps, rows)))
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
