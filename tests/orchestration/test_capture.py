"""Without an extension that captures tables nothing is waited for, and a copy is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestration.capture import interface
from orchestration.capture.interface import capture_wait, require_capture
from orchestration.supervision.status import status
from sources import captured_tables
from sources.errors import ErrorReport, InputError
from sources.planning.context import PipelineContext
from tests.orchestration.supervision.live_case import LiveCase


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveCase:
    def nothing(_: str) -> Iterator[Any]:
        return iter(())

    monkeypatch.setattr(interface, "contributions", nothing)
    monkeypatch.setattr(captured_tables, "contributions", nothing)
    return LiveCase(tmp_path)


def test_a_copy_of_a_table_is_refused_by_name(case: LiveCase) -> None:
    del case
    with pytest.raises(InputError, match="No installed extension captures database tables") as it:
        require_capture()
    assert "begin with files of it" in it.value.hint


def test_nothing_is_waited_for_and_no_change_is_followed(case: LiveCase) -> None:
    context = PipelineContext(case.loaded, case.generation)
    wait = capture_wait(context)
    assert (wait.is_behind(9, None), wait.text) == (False, "")
    failure = ErrorReport(kind="changed_columns", message="A column was added.")
    assert captured_tables.changes_to_follow(context, failure) is None
    captured_tables.look_before_launch(case.loaded, case.generation)
    captured_tables.require_unaltered(case.generation)


def test_a_look_at_the_live_run_sees_the_run_alone(case: LiveCase) -> None:
    case.ask_for_it()
    case.launch("a")
    with case.alive():
        found = status(case.loaded)
    assert found.live is not None
    assert (found.live.health, found.table_unknown, found.narrowed) == ("healthy", None, [])
