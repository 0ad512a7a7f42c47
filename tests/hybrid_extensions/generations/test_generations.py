"""Generations side by side: begun, compared, promoted, rolled back, and nothing in between."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from hybrid_extensions.generations import discards
from hybrid_extensions.generations.switch import promotion
from hybrid_extensions.generations.table_position import find_position
from orchestration.operations import bounded_run
from orchestration.supervision.status import status
from sources import generations
from sources.config.code.user_functions import load_function
from sources.config.document.yaml_document import KEPT
from sources.config.loader import load_pipeline
from sources.errors import StateError
from sources.generations import acting_on, begin
from sources.kept_definitions import in_service, kept_folder
from sources.planning.context import PipelineContext
from sources.serving import (
    generation_with_role,
    pending_switch,
    read_serving,
    require_in_service,
    target_of,
)
from sources.state.generation import read_generation
from sources.storage.folder import Folder
from spark_jobs.run_state.table_locks import is_switching, take_switch_lock
from spark_jobs.table.delta_table import NO_MORE, transactions_of
from spark_jobs.table.ownership.belonging import TargetSide, examine, require_belonging
from tests.command_line import invoke
from tests.orchestration.generations.generation_case import GenerationCase

OLD = {1: 10, 2: 20, 3: 30}
NEW = {2: 20, 3: 31, 4: 40}


def call(case: GenerationCase, *words: str, status: int = 0) -> dict[str, Any]:
    done = invoke(["generation", *words, str(case.folder / "events.yaml"), "--json"])
    assert done.exit_code == status, done.output
    return json.loads(done.stdout.splitlines()[0])  # type: ignore[no-any-return]


def two(folder: Path, **changes: Any) -> GenerationCase:
    """One that serves, and one that waits."""
    case = GenerationCase(folder)
    case.write(**changes)
    case.run(OLD)
    begin(case.loaded)
    case.run(NEW)
    return case


def test_a_new_generation_has_a_table_of_its_own_until_readers_get_it(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.run(OLD)
    assert call(case, "new")["generation"] == "g2"
    case.run(NEW)
    assert case.seen() == OLD
    assert target_of(case.loaded, "g2").url == f"{tmp_path}/out.g2"
    assert [line["role"] for line in call(case, "list")["generations"]] == ["serving", "waiting"]

    roles = {name: generation_with_role(acting_on(case.loaded, name)) for name in ("g1", "g2")}
    assert roles == {"g1": "g1, which serves", "g2": "g2, the candidate"}

    done = call(case, "promote", "--by", "Ada")
    assert done == {"ok": True, "serving": "g2", "before": ["g1"], "by": "Ada"}
    assert case.seen() == NEW
    assert not (tmp_path / "out.g2").exists()
    assert target_of(case.loaded, "g2").url == str(tmp_path / "out")

    done = call(case, "rollback", "--by", "Bob")
    assert done == {"ok": True, "serving": "g1", "before": ["g2"], "by": "Bob"}
    assert case.seen() == OLD
    assert call(case, "rollback")["serving"] == "g2"
    assert case.seen() == NEW


def test_what_serves_belongs_together_after_each_switch(tmp_path: Path) -> None:
    case = two(tmp_path)
    for command in ("promote", "rollback", "rollback"):
        serving = str(call(case, command)["serving"])
        generation = read_generation(case.loaded.state, serving)
        require_belonging(case.loaded, generation)
        found = examine(TargetSide.of(case.loaded, generation))
        assert found.written == 0


def test_what_would_change_for_readers_is_told_row_by_row(tmp_path: Path) -> None:
    case = two(tmp_path)
    found = call(case, "compare")
    assert found["rows"] == {"g1": 3, "g2": 3}
    assert (found["missing"], found["added"], found["changed"]) == (1, 1, 1)
    assert found["examples"]["missing"][0]["key"] == {"id": 1}
    changed = found["examples"]["changed"][0]
    assert (changed["column"], changed["expected"], changed["found"]) == ("v", 30, 31)


def test_a_driver_that_was_taken_for_dead_adds_nothing_to_the_next_generation(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    old, new = (read_generation(case.loaded.state, name) for name in ("g1", "g2"))
    promotion.promote(case.loaded)
    ids = [case.query(old), old.info.transaction_id, case.query(new)]
    out = Folder(tmp_path / "out")
    # Delta leaves out a batch whose transaction version it has seen, or a higher one.
    assert transactions_of(out, ids) == {ids[0]: NO_MORE, ids[1]: NO_MORE, ids[2]: 0}
    promotion.roll_back(case.loaded)
    found = transactions_of(out, ids)
    assert (found[ids[0]], found[ids[2]]) == (0, NO_MORE)


def test_the_commit_of_a_switch_says_the_position_of_the_rows_that_readers_see_then(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    assert find_position(case.loaded.target).generation == "g1"
    promotion.promote(case.loaded)
    assert find_position(case.loaded.target).generation == "g2"
    promotion.roll_back(case.loaded)
    assert find_position(case.loaded.target).generation == "g1"


def test_rows_that_were_written_after_the_promotion_are_there_after_a_rollback_of_the_rollback(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    new = case.loaded.require_generation()
    promotion.promote(case.loaded)
    more = DeltaTable(tmp_path / "out").to_pyarrow_table().slice(0, 1)
    more = more.set_column(0, "id", [[9]]).set_column(1, "v", [[90]])
    case.append(new, more, 1)
    promotion.roll_back(case.loaded)
    assert case.seen() == OLD
    promotion.roll_back(case.loaded)
    assert case.seen() == {**NEW, 9: 90}


def test_the_one_that_serves_goes_on_by_what_it_was_started_with(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.run(OLD)
    begin(case.loaded)
    (tmp_path / "pipeline_words.py").write_text("WORD = 'new'\n")
    case.write(allowed_lateness="1 h")
    with pytest.raises(StateError, match="`allowed_lateness` of pipeline `events` changed since"):
        case.loaded.require_generation()
    # Nothing was planned: to begin again is to take the declaration over as it is.
    assert begin(case.loaded).name == "g2"
    newest, serving = in_service(case.loaded)
    assert newest.require_generation().name == "g2"
    assert serving.require_generation().name == "g1"
    assert serving.path == kept_folder(case.loaded, "g1").path(case.loaded.path.name)
    assert serving.locate("out") == str(tmp_path / "out")
    functions = [
        load_function(each, "transform", each.pipeline.transform.name)
        for each in (serving, newest, serving)
    ]
    words = [each.__globals__["WORD"] for each in functions]
    assert words == ["old", "new", "old"]
    # Its file can be named like any other.
    assert load_pipeline(serving.path).pipeline.allowed_lateness.total_seconds() == 0


def test_a_definition_is_kept_without_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERE", "a-place-not-to-be-told")
    case = GenerationCase(tmp_path)
    case.write(spark={"conf": {"spark.x": "${WHERE}"}})
    case.run(OLD)
    kept = [path.read_text() for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert any("${WHERE}" in text for text in kept)
    assert not any("a-place-not-to-be-told" in text for text in kept)


def test_only_as_many_are_kept_as_declared(tmp_path: Path) -> None:
    case = two(tmp_path, generations={"keep": 1})
    promotion.promote(case.loaded)
    begin(case.loaded)
    case.run({7: 7})
    promotion.promote(case.loaded)
    assert case.seen() == {7: 7}
    assert [line["name"] for line in call(case, "list")["generations"]] == ["g2", "g3"]
    assert not (tmp_path / "state/events/g1").exists()


def test_whatever_is_discarded_after_a_rollback_both_generations_that_served_stay(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    promotion.promote(case.loaded)
    promotion.roll_back(case.loaded)
    assert call(case, "new")["generation"] == "g3"
    assert call(case, "discard")["discarded"] == "g3"
    assert call(case, "rollback")["serving"] == "g2"
    before = read_generation(case.loaded.state, "g2").names("*")
    # Before, the next one was begun as if the one that serves were the rest of a discarded one.
    assert call(case, "new")["generation"] == "g4"
    assert read_generation(case.loaded.state, "g2").names("*") == before
    assert [line["name"] for line in call(case, "list")["generations"]] == ["g1", "g2", "g4"]
    assert case.seen() == NEW


def test_the_name_of_a_discarded_generation_is_not_used_again(tmp_path: Path) -> None:
    case = two(tmp_path)
    assert call(case, "discard")["discarded"] == "g2"
    # A process that slept while it discarded g2 would remove that one, too.
    assert call(case, "new")["generation"] == "g3"
    assert call(case, "discard")["discarded"] == "g3"
    assert call(case, "new")["generation"] == "g4"


def test_a_discard_that_broke_off_is_completed_by_the_next_generation_and_nothing_else_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = two(tmp_path)
    with monkeypatch.context() as killed:
        killed.setattr(discards, "remove", lambda *_: None)
        assert call(case, "discard")["discarded"] == "g2"
    assert (tmp_path / "state/events/g2/generation.json").exists()
    assert [line["name"] for line in call(case, "list")["generations"]] == ["g1"]
    assert call(case, "new")["generation"] == "g3"
    assert not (tmp_path / "state/events/g2").exists()
    assert not (tmp_path / "out.g2").exists()
    case.run(NEW)
    # One that slept since before g3 was begun looks for what was left of g2.
    with monkeypatch.context() as slept:
        slept.setattr(generations, "candidate_name", lambda _: None)
        slept.setattr(generations, "newest_generation", lambda _: "g1")
        begin(case.loaded)
    assert (tmp_path / "out.g3").exists()
    assert read_generation(case.loaded.state, "g3").names("checkpoint/*")


def test_what_can_not_be_done_is_refused_by_name(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    assert "has not run yet" in call(case, "new", status=2)["message"]
    case.run(OLD)
    assert "has no candidate" in call(case, "compare", status=2)["message"]
    assert "has no candidate" in call(case, "promote", status=2)["message"]
    assert "no earlier generation" in call(case, "rollback", status=2)["message"]
    assert "has no candidate" in call(case, "discard", status=2)["message"]
    call(case, "new")
    assert "has not read `history` to its end" in call(case, "promote", status=2)["message"]
    told = call(case, "compare", status=2)["message"]
    assert "Generation g2 of pipeline `events` has no table yet" in told
    (tmp_path / "state/events/g2/plan.json").write_text("{}")
    (tmp_path / "state/events/g2/checkpoint/offsets").mkdir(parents=True)
    (tmp_path / "state/events/g2/checkpoint/offsets/0").write_text("v1")
    assert "has a candidate already, generation g2" in call(case, "new", status=2)["message"]
    assert call(case, "discard")["discarded"] == "g2"
    assert not (tmp_path / "state/events/g2").exists()
    assert case.seen() == OLD


def test_a_candidate_whose_plan_is_missing_is_not_begun_again(tmp_path: Path) -> None:
    case = two(tmp_path)
    read = tmp_path / "state/events/g2/checkpoint/offsets"
    read.mkdir(parents=True, exist_ok=True)
    (read / "0").write_text("v1")
    (tmp_path / "state/events/g2/plan.json").unlink(missing_ok=True)
    refused = call(case, "new", status=2)
    assert "has a candidate already, generation g2" in refused["message"]
    assert "hybrid generation discard" in refused["hint"]
    assert call(case, "discard")["discarded"] == "g2"
    assert call(case, "new")["generation"] == "g3"


def test_a_kept_declaration_that_was_deleted_is_named_and_nothing_hides_the_one_that_serves(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    kept = kept_folder(case.loaded, "g1").path(case.loaded.path.name)
    assert status(case.loaded).served_by is not None
    kept.unlink()
    for look in (status, promotion.promote, in_service):
        with pytest.raises(StateError, match=f"State file {kept} is missing") as refused:
            look(case.loaded)
        assert "copy the pipeline's file" in refused.value.hint
    assert pending_switch(case.loaded) is None
    shutil.copy(case.loaded.path, kept)
    assert status(case.loaded).served_by is not None


def test_a_generation_whose_whole_state_was_deleted_is_refused_with_a_way_that_leads_out(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    gone = tmp_path / "state/events/g1"
    shutil.rmtree(gone)
    for look in (in_service, promotion.promote):
        # A copy of the declaration alone would not bring it back.
        with pytest.raises(StateError, match=f"State file {gone}/generation.json") as refused:
            look(case.loaded)
        assert "declare another `state` and another `sink.path`" in refused.value.hint


def test_without_its_origin_a_kept_declaration_is_not_taken_for_another_pipeline(
    tmp_path: Path,
) -> None:
    case = two(tmp_path)
    origin = kept_folder(case.loaded, "g1").path(case.loaded.path.name).with_name(KEPT)
    origin.unlink()
    with pytest.raises(StateError, match=f"State file {origin} is missing") as refused:
        status(case.loaded)
    written = re.search(r"write it: `(.*)`", refused.value.hint)
    assert written is not None
    origin.write_text(written[1])
    assert call(case, "promote")["serving"] == "g2"
    assert case.seen() == NEW


def test_a_generation_that_no_longer_serves_is_not_run(tmp_path: Path) -> None:
    case = two(tmp_path)
    promotion.promote(case.loaded)
    promotion.roll_back(case.loaded)
    generation = case.loaded.require_generation()
    assert generation.name == "g2"
    with pytest.raises(StateError, match="g2 of pipeline `events` no longer serves: g1 replaced"):
        require_in_service(case.loaded, generation)
    # Its history was read: nothing is to be run for that.
    assert (
        bounded_run.run_bounded(
            PipelineContext.require(case.loaded), case.loaded.pipeline.source("history")
        ).splits
        == 1
    )


def test_two_promotions_at_once_are_one(tmp_path: Path) -> None:
    case = two(tmp_path)
    lock = take_switch_lock(case.loaded.state)
    assert lock is not None
    assert is_switching(case.loaded.state)
    with pytest.raises(StateError, match="another process is changing the table"):
        promotion.promote(case.loaded)
    assert read_serving(case.loaded).generation == "g1"
