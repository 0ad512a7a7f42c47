"""The record of a target: of two writers one wins, and documents that were lost are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.errors import StateError
from sources.state.generation import Generation, make_generation
from sources.storage.folder import Folder
from spark_jobs.run_state.target_record import (
    TargetRecord,
    documents_of,
    missing_documents,
    read_target_record,
    replace_target_record,
    was_requested,
)


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    return make_generation(Folder(tmp_path / "state"), "g1", {})


def test_before_the_first_start_there_is_none(generation: Generation) -> None:
    assert read_target_record(generation) is None
    assert not was_requested(generation)


def test_who_has_read_the_present_one_replaces_it(generation: Generation) -> None:
    first, second = TargetRecord(epoch=1), TargetRecord(epoch=2)
    assert replace_target_record(generation, TargetRecord(), first)
    assert replace_target_record(generation, first, second)
    assert read_target_record(generation) == second


def test_who_has_read_an_older_one_does_not(generation: Generation) -> None:
    """A driver that slept while another one was started."""
    first, second = TargetRecord(epoch=1), TargetRecord(epoch=2)
    assert replace_target_record(generation, TargetRecord(), first)
    assert not replace_target_record(generation, TargetRecord(), second), "it takes it for absent"
    assert read_target_record(generation) == first
    assert replace_target_record(generation, first, second)
    assert not replace_target_record(generation, first, TargetRecord(epoch=3))
    assert read_target_record(generation) == second


def test_one_that_came_between_reading_and_writing_is_not_overwritten(
    generation: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = TargetRecord(epoch=1), TargetRecord(epoch=7)
    read = Folder.document
    for before in (None, first):
        if before is not None:
            generation.replace(TargetRecord.NAME, before)

        def found(folder: Folder, name: str) -> object:
            document = read(folder, name)
            generation.replace(TargetRecord.NAME, other)
            return document

        with monkeypatch.context() as patch:
            patch.setattr(Folder, "document", found)
            mine = TargetRecord(epoch=2)
            assert not replace_target_record(generation, before or TargetRecord(), mine)
        assert read_target_record(generation) == other
        generation.delete(TargetRecord.NAME)


def test_decisions_are_listed_and_what_runs_replace_is_not(generation: Generation) -> None:
    for name in (
        "plan.json",
        "positions/history-end.json",
        "ledger/live.json",
        "run/requested.json",
        "run/launch.json",
        "run/live-heartbeat.json",
        "positions/.live.json",
        "positions/deeper/live.json",
        "positions/notes.txt",
    ):
        generation.replace_bytes(name, b"{}")
    assert documents_of(generation) == [
        "generation.json",
        "ledger/live.json",
        "plan.json",
        "positions/history-end.json",
        "run/requested.json",
    ]


def test_documents_that_were_lost_since_are_named(generation: Generation) -> None:
    for name in ("plan.json", "ledger/live.json", "positions/history-end.json"):
        generation.replace_bytes(name, b"{}")
    record = TargetRecord(documents=documents_of(generation))
    assert missing_documents(generation, record) == []
    generation.delete("ledger/live.json")
    generation.delete("plan.json")
    assert missing_documents(generation, record) == ["ledger/live.json", "plan.json"]


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_request_that_was_there_is_remembered(generation: Generation, is_listed: bool) -> None:
    documents = ["run/requested.json"] if is_listed else ["plan.json"]
    replace_target_record(generation, TargetRecord(), TargetRecord(documents=documents))
    assert was_requested(generation) is is_listed


def test_a_damaged_one_is_refused_and_stays(generation: Generation) -> None:
    generation.replace_bytes(TargetRecord.NAME, b"{")
    with pytest.raises(StateError, match=r"target\.json can't be read"):
        replace_target_record(generation, TargetRecord(), TargetRecord(epoch=1))
    assert generation.read_bytes(TargetRecord.NAME) == b"{"
