"""`hybrid training` on declared sets: what is up to date, and what is computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import invoke
from tests.hybrid_extensions.training.sets.set_case import Case
from tests.minimal import minimal_pipeline


@pytest.fixture
def case(tmp_path: Path) -> Case:
    made = Case(tmp_path)
    made.labels = [(1, "a", 5), (2, "a", 30)]
    made.write_labels()
    made.add(own=[("a", 0, 7, 2)])
    return made


def call(case: Case, *options: str) -> tuple[int, dict[str, Any]]:
    result = invoke(["training", str(case.loaded.path), *options, "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_the_status_says_what_is_computed_next_and_why(case: Case) -> None:
    status, answer = call(case, "--range", "2024-01-02")
    assert (status, answer["sets"]["sales"]["rows"]) == (0, 1)
    _, answer = call(case, "--status")
    first, second = answer["sets"]["sales"]
    assert first == {
        "range": "2024-01-01",
        "labels": 1,
        "current": False,
        "reasons": ["not computed yet"],
    }
    assert second["current"]
    shown = invoke(["training", str(case.loaded.path), "--status"]).stdout
    assert "sales: 1 range of 2 up to date" in shown
    assert "not computed yet" in shown
    shown = invoke(["training", str(case.loaded.path)]).stdout
    assert "sales: Computed: 1 range of label times, 2024-01-01, with 1 label" in shown
    assert case.rows() == case.expected()


def test_options_that_do_not_belong_together_are_refused(case: Case, tmp_path: Path) -> None:
    status, answer = call(case, "--labels", "x.parquet")
    assert (status, "belong together" in answer["message"]) == (2, True)
    status, answer = call(case, "--set", "other")
    assert status == 2
    assert "no training set `other`" in answer["message"]
    assert "`sales`" in answer["hint"]
    source = {"name": "h", "type": "files", "path": "in/*.parquet", "format": "parquet"}
    without = minimal_pipeline(tmp_path, source, name="bare")
    result = invoke(["training", str(without.path)])
    assert result.exit_code == 2
    assert "declares no `training_sets`" in result.stderr
