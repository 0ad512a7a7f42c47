"""The record of a launch is of the driver that holds the lock, whoever writes late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sources.errors import StateError
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.launch.launch_record import (
    LAUNCH,
    Launch,
    last_launch,
    record_group,
    record_launch,
    record_switch,
)
from tests.orchestration.supervision.live_case import LiveCase


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    return LiveCase(tmp_path).generation


def launch(launch_id: str, *sources: str) -> Launch:
    source, *then = sources or ("inbox",)
    return Launch(launch_id=launch_id, source=source, then=then, log="l", group=None, at_ms=1)


def test_a_launch_that_was_suspended_replaces_no_later_one(generation: Generation) -> None:
    record_launch(generation, None, launch("first"))
    with pytest.raises(StateError, match="no driver of `inbox` was started here") as refused:
        record_launch(generation, None, launch("late"))
    assert refused.value.transient
    record_launch(generation, last_launch(generation), launch("second"))
    with pytest.raises(StateError):
        record_launch(generation, launch("first"), launch("late"))
    assert last_launch(generation) == launch("second")


def test_the_process_group_of_an_earlier_launch_is_not_recorded(generation: Generation) -> None:
    record_launch(generation, None, launch("first"))
    record_group(generation, "first", 7)
    record_group(generation, "another", 8)
    assert last_launch(generation) == launch("first").model_copy(update={"group": 7})
    generation.delete(LAUNCH)
    record_group(generation, "first", 9)
    assert last_launch(generation) is None


def test_a_driver_that_switches_before_its_group_is_recorded_has_both(
    generation: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_launch(generation, None, launch("first", "history", "inbox"))
    replace_known = Folder.replace_known

    def suspended(*document: Any) -> bool:
        monkeypatch.undo()
        record_switch(generation, "first", "inbox")
        return replace_known(*document)

    # Its launcher has read the record, and then the driver switches.
    monkeypatch.setattr(Folder, "replace_known", suspended)
    record_group(generation, "first", 7)
    last = last_launch(generation)
    assert last is not None
    assert (last.source, last.then, last.group) == ("inbox", [], 7)


def test_a_switch_that_was_recorded_already_is_not_taken_for_another_launch(
    generation: Generation,
) -> None:
    record_launch(generation, None, launch("first", "history", "inbox"))
    record_switch(generation, "first", "inbox")
    record_switch(generation, "first", "inbox")
    with pytest.raises(StateError, match="`history` is no source that it reads afterwards"):
        record_switch(generation, "first", "history")
    with pytest.raises(StateError, match="Another driver was launched"):
        record_switch(generation, "second", "inbox")
