"""Until something is read, a plan is only a plan: another declaration replaces it, whole."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from orchestration.operations import chain_plan
from sources.errors import StateError
from sources.generations import begin
from sources.kept_definitions import keep_definition
from sources.planning.approval import find_approval
from sources.planning.plan import Plan
from sources.serving import OWNER, target_of
from sources.storage.folder import Folder
from spark_jobs.launch import unread_generations
from spark_jobs.run_state.driver_lock import QueryLock
from spark_jobs.run_state.target_record import TargetRecord, read_target_record
from spark_jobs.table.ownership.belonging import TargetSide
from spark_jobs.table.ownership.target_records import verified_record
from tests.command_line import invoke
from tests.orchestration.generations.generation_case import GenerationCase


def call(case: GenerationCase, *words: str, status: int = 0) -> dict[str, Any]:
    done = invoke([*words, str(case.folder / "events.yaml"), "--json"])
    assert done.exit_code == status, done.output
    return json.loads(done.stdout.splitlines()[0])  # type: ignore[no-any-return]


@pytest.fixture
def case(tmp_path: Path) -> GenerationCase:
    """A pipeline with two files, and another folder with one."""
    for number in range(2):
        (tmp_path / "in").mkdir(exist_ok=True)
        line = f'{{"id": {number}, "at": "2024-01-01T00:00:0{number}Z", "v": 1}}\n'
        (tmp_path / f"in/{number}.json").write_text(line)
    shutil.copytree(tmp_path / "in", tmp_path / "other", ignore=shutil.ignore_patterns("1.json"))
    return GenerationCase(tmp_path)


def declare(case: GenerationCase, **changes: Any) -> None:
    """Change fields of the source of files; or of the pipeline, where they are named so."""
    case.write()
    source = {**case.loaded.pipeline.sources[0].model_dump(mode="json", exclude_unset=True)}
    source |= {"schema": {"id": "bigint", "at": "timestamp", "v": "bigint"}, "name": "history"}
    source.pop("columns", None)
    whole = {name: changes.pop(name) for name in ("approve", "sink", "key") if name in changes}
    case.write(sources=[{**source, **changes}], **whole)


def files(case: GenerationCase) -> int:
    return int(call(case, "plan")["files"][0]["splits"])


def read_something(case: GenerationCase) -> None:
    """Leave what Spark leaves before it reads its first micro-batch."""
    offsets = case.loaded.require_generation().checkpoint.root / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1\n{}\n-")


@pytest.mark.parametrize("second", [False, True])
def test_a_plan_that_nothing_was_read_by_is_made_again_by_another_declaration(
    case: GenerationCase, second: bool
) -> None:
    if second:
        case.run({1: 1})
        begin(case.loaded)
    assert files(case) == 2
    before = case.loaded.require_generation()
    declare(case, path="other/*.json", batch={"files": 1})
    with pytest.raises(StateError, match="changed since") as refused:
        case.loaded.require_generation()
    # The way out that the error names.
    assert "`hybrid plan P`" in refused.value.hint
    assert files(case) == 1
    after = case.loaded.require_generation()
    assert after.name == before.name == ("g2" if second else "g1")
    assert after.info.transaction_id != before.info.transaction_id
    assert len(list(after.path("splits").iterdir())) == 1
    assert {path.name for path in case.loaded.state.root.iterdir()} - {"current.json"} == (
        {"g1", "g2", "actions"} if second else {"g1"}
    )


@pytest.mark.parametrize("second", [False, True])
def test_a_plan_that_something_was_read_by_stays(case: GenerationCase, second: bool) -> None:
    if second:
        case.run({1: 1})
        begin(case.loaded)
    assert files(case) == 2
    read_something(case)
    declare(case, batch={"files": 1})
    assert files(case) == 2
    declare(case, path="other/*.json")
    refused = call(case, "plan", status=2)
    assert "its checkpoint can't follow the change" in refused["message"]
    if second:
        assert "has a candidate already" in call(case, "generation", "new", status=2)["message"]
        assert call(case, "generation", "discard")["discarded"] == "g2"
        assert call(case, "generation", "new")["generation"] == "g3"
        assert files(case) == 1


def test_the_same_declaration_keeps_its_plan(case: GenerationCase) -> None:
    made = call(case, "plan")
    case.write(supervision={"stuck_after": "9 min"})
    assert call(case, "plan") == made


def test_files_that_arrive_or_are_rewritten_are_planned_until_something_is_read(
    case: GenerationCase,
) -> None:
    assert files(case) == 2
    arrived = case.folder / "in/2.json"
    arrived.write_text('{"id": 2, "at": "2024-01-01T00:00:02Z", "v": 1}\n')
    assert files(case) == 3
    made = call(case, "plan")
    assert call(case, "plan") == made
    arrived.write_text('{"id": 2, "at": "2024-01-01T00:00:02Z", "v": 12}\n')
    assert call(case, "plan")["created_ms"] > made["created_ms"]
    read_something(case)
    arrived.unlink()
    assert files(case) == 3


def test_what_was_approved_is_what_will_be_read(case: GenerationCase) -> None:
    declare(case, approve=True)
    assert files(case) == 2
    invoke(["approve", str(case.folder / "events.yaml"), "--by", "Ada"])
    (case.folder / "in/2.json").write_text('{"id": 2, "at": "2024-01-01T00:00:02Z", "v": 1}\n')
    assert files(case) == 2


@pytest.mark.parametrize(
    "declared", [{"time_range": {"since": "2024-01-01T00:00:01Z"}}, {"path": "in"}]
)
def test_a_plan_of_files_as_they_are_is_made_once(
    case: GenerationCase, declared: dict[str, Any]
) -> None:
    (case.folder / "in/empty.json").write_text("")
    declare(case, **declared)
    made = call(case, "plan")
    assert call(case, "plan") == made


def test_another_batch_or_start_is_another_declaration(case: GenerationCase) -> None:
    made = call(case, "plan")["created_ms"]
    declare(case, batch={"files": 1})
    assert call(case, "plan")["created_ms"] != made


def test_an_approval_is_of_the_plan_that_was_approved(case: GenerationCase) -> None:
    declare(case, approve=True)
    call(case, "plan")
    invoke(["approve", str(case.folder / "events.yaml"), "--by", "Ada"])
    assert find_approval(case.loaded.require_generation()) is not None
    declare(case, approve=True, path="other/*.json")
    call(case, "plan")
    assert find_approval(case.loaded.require_generation()) is None


def test_a_declaration_that_is_refused_leaves_the_plan_as_it_was(case: GenerationCase) -> None:
    assert files(case) == 2
    declare(case, path="nowhere/*.json")
    call(case, "plan", status=2)
    case.write()
    assert files(case) == 2


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize(
    ("where", "name"),
    [
        (Path, "rename"),
        (unread_generations, "make_generation"),
        (shutil, "rmtree"),
        (Folder, "replace"),
        (pq, "write_table"),
        (Folder, "put_if_absent"),
    ],
    ids=str,
)
def test_a_plan_that_breaks_off_on_its_way_is_made_by_the_next_one(
    case: GenerationCase, monkeypatch: pytest.MonkeyPatch, second: bool, where: Any, name: str
) -> None:
    if second:
        case.run({1: 1})
        begin(case.loaded)
    assert files(case) == 2
    declare(case, path="other/*.json")

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(where, name, crash)
        with contextlib.suppress(KeyboardInterrupt):
            chain_plan.plan(case.loaded)
    if second and call(case, "generation", "list")["generations"][-1]["name"] == "g1":
        # It was discarded already: the error that comes next names the way on.
        assert "hybrid generation new" in call(case, "plan", status=2)["hint"]
        call(case, "generation", "new")
    assert files(case) == 1
    assert not list(case.loaded.state.root.glob(".unread*"))
    generation = case.loaded.require_generation()
    plan = generation.read("plan.json", Plan)
    assert plan is not None
    assert generation.path(plan.files[0].splits_file).exists()


@pytest.mark.parametrize("second", [False, True])
def test_a_plan_that_lost_its_splits_is_made_again_until_something_is_read(
    case: GenerationCase, second: bool
) -> None:
    assert files(case) == 2
    if second:
        read_something(case)
        begin(case.loaded)
        assert files(case) == 2

    def splits() -> Path:
        generation = case.loaded.require_generation()
        plan = generation.read("plan.json", Plan)
        assert plan is not None
        return generation.path(plan.files[0].splits_file)

    splits().unlink()
    assert files(case) == 2
    assert splits().exists()
    read_something(case)
    splits().unlink()
    # What it reads can't be told any more.
    refused = call(case, "plan", status=2)
    assert refused["message"].startswith(f"State file {splits()} is missing")
    assert not splits().exists()


def test_an_empty_table_that_a_run_left_goes_with_its_plan(case: GenerationCase) -> None:
    call(case, "plan")
    generation = case.loaded.require_generation()
    # A driver came up, made the table, and died before its first micro-batch.
    keep_definition(case.loaded, generation)
    schema = pa.schema([("id", pa.int64())])
    table = target_of(case.loaded).root
    owned = {OWNER: generation.info.transaction_id}
    DeltaTable.create(table, schema, configuration=owned, raise_if_key_not_exists=False)
    declare(case, sink={"path": "elsewhere", "mode": "append", "key": ["id"]})
    with QueryLock(generation):
        refused = call(case, "plan", status=2)
        assert "a run of generation g1 is active" in refused["message"]
        assert table.exists()
    call(case, "plan")
    assert not table.exists()


def test_rows_without_their_checkpoint_are_not_given_away(case: GenerationCase) -> None:
    call(case, "plan")
    generation = case.loaded.require_generation()
    case.run({1: 1})
    # As the driver does once a minute.
    side, record = TargetSide.of(case.loaded, generation), read_target_record(generation)
    assert record is not None
    generation.replace(
        TargetRecord.NAME, verified_record(side, record, DeltaTable(side.table.url).version())
    )
    os.remove(generation.path("positions/history-end.json"))
    shutil.rmtree(generation.checkpoint.root)
    declare(case, path="other/*.json")
    refused = call(case, "plan", status=2)
    assert "history-end.json" in refused["message"]
    assert case.seen() == {1: 1}
    # The way out that it names.
    assert call(case, "generation", "new")["generation"] == "g2"


def test_a_first_generation_that_read_nothing_needs_no_second(case: GenerationCase) -> None:
    call(case, "plan")
    keep_definition(case.loaded, case.loaded.require_generation())
    declare(case, path="other/*.json")
    refused = call(case, "generation", "new", status=2)
    assert "has not run yet" in refused["message"]
    assert files(case) == 1


def test_a_definition_that_was_deleted_keeps_nobody_from_a_new_generation(
    case: GenerationCase,
) -> None:
    call(case, "plan")
    case.run({1: 1})
    kept = case.loaded.require_generation().path("definition")
    shutil.rmtree(kept)
    declare(case, path="other/*.json")
    refused = call(case, "generation", "new", status=2)
    assert f"{kept}/events.yaml, is missing" in refused["message"]
    # The way out that it names.
    declare(case, path="in/*.json")
    assert call(case, "generation", "new")["generation"] == "g2"
    assert (kept / "events.yaml").exists()
