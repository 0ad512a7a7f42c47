"""Whether a generation may take the serving rows, and how its plan follows the transform."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from orchestration import operations
from orchestration.changed_columns.begin import begin_changed_columns
from orchestration.cli.main import app
from sources.changed_columns.documents import (
    ChangedColumn,
    ColumnDifference,
    ColumnsAnswer,
    ColumnsRequest,
    PinnedVersion,
    is_unfinished,
    read_changed_columns,
)
from sources.config.source.bad_records import BadRecordCount, bad_count_name
from sources.errors import HybridError, InputError, StateError
from sources.generations import begin, discard
from sources.planning.context import PipelineContext
from sources.serving import waiting
from sources.state.generation import Generation, read_generation
from sources.storage.folder import Folder
from sources.storage.tables.delta_log import commit_name
from spark_jobs.changed_columns.state import pin
from spark_jobs.checkpoint.transform_compatibility import Transform
from spark_jobs.launch.questions.spark_process import SparkProcess
from spark_jobs.run_state.target_record import AcceptedChange, TargetRecord, read_target_record
from spark_jobs.table.table_snapshot import read_snapshot
from tests.orchestration.generations.generation_case import GenerationCase

CHANGED = ChangedColumn(name="w", type="bigint", inputs=["v"])
ANSWER = ColumnDifference(changed=[CHANGED], kept=["id", "v"], removed=[], before="c1", code="c2")


class Asked:
    """What stands for the process that compares the transforms."""

    def __init__(self) -> None:
        self.answer = ColumnsAnswer(difference=ANSWER)
        self.requests: list[ColumnsRequest] = []

    def __call__(self, question: str) -> str:
        self.requests.append(ColumnsRequest.model_validate_json(question))
        return self.answer.model_dump_json()

    def says(self, **changes: Any) -> None:
        self.answer = ColumnsAnswer(difference=ANSWER.model_copy(update=changes))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    monkeypatch.setattr(SparkProcess, "ask", found)
    return found


def transform(first_batch: int, **changes: Any) -> Transform:
    known = {"name": "transforms:features", "reached": "", "code": "c1", "plan": "p1"}
    described: dict[str, Any] = {**known, "operators": [], "spark": "4.2.1", **changes}
    return Transform(first_batch=first_batch, **described)


@pytest.fixture
def case(tmp_path: Path) -> GenerationCase:
    """A pipeline over a file, whose only generation has read it."""
    (tmp_path / "in").mkdir()
    line = '{"id": 1, "at": "2024-01-01T00:00:00Z", "v": 1}\n'
    (tmp_path / "in/0.json").write_text(line)
    made = GenerationCase(tmp_path)
    operations.plan(made.loaded)
    generation = made.run({1: 1, 2: 2})
    generation.replace("transforms/0.json", transform(0))
    return made


def call(case: GenerationCase, *words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*words, str(case.folder / "events.yaml"), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout.splitlines()[0])  # type: ignore[no-any-return]


def test_the_plan_says_what_is_read_against_a_full_rerun(
    case: GenerationCase, asked: Asked
) -> None:
    answer = call(case, "generation", "new", "--only-changed")
    assert (answer["generation"], answer["only_changed"]["of"]) == ("g2", "g1")
    [request] = asked.requests
    assert request.given == {"id": "bigint", "at": "timestamp", "v": "bigint"}
    assert request.before != request.now

    summary = call(case, "plan")["preview"]["summary"]
    assert summary.startswith("Takes the 2 rows of g1, and computes only `w` from `v`: decodes ")
    assert "computes about 16 Bytes" in summary
    assert f"of a full rerun, which reads {(case.folder / 'in/0.json').stat().st_size} B" in summary
    generation = case.loaded.require_generation()
    assert is_unfinished(generation)
    assert PipelineContext.require(case.loaded).is_planned
    assert call(case, "status")["generation"] == "g2"
    # Once more is the same one.
    assert call(case, "generation", "new", "--only-changed")["generation"] == "g2"


def merged(case: GenerationCase, _: Generation) -> None:
    case.write(sink={"path": "out", "mode": "merge", "key": ["id"]})


def with_another_setting(case: GenerationCase, _: Generation) -> None:
    case.write(spark={"conf": {"spark.sql.ansi.enabled": "false"}})


def with_another_key(case: GenerationCase, _: Generation) -> None:
    case.write(key=["id", "v"])


def with_bad_records(_: GenerationCase, generation: Generation) -> None:
    count = BadRecordCount(source="history", total=1, last_batch=0)
    generation.replace(bad_count_name("history"), count)


def by_two_transforms(_: GenerationCase, generation: Generation) -> None:
    generation.replace("transforms/1.json", transform(1, plan="p2"))


def by_no_known_transform(_: GenerationCase, generation: Generation) -> None:
    generation.delete("transforms/0.json")


def changed_by_others(_: GenerationCase, generation: Generation) -> None:
    record = read_target_record(generation)
    assert record is not None
    change = AcceptedChange(by="ada", at_ms=0, version=1, operation="DELETE")
    generation.replace(TargetRecord.NAME, record.model_copy(update={"accepted": [change]}))


def with_mapped_columns(case: GenerationCase, _: Generation) -> None:
    table = DeltaTable(case.folder / "out")
    version = table.version() + 1
    metadata = read_snapshot(Folder(case.folder / "out")).metadata
    mapped = {**metadata["configuration"], "delta.columnMapping.mode": "name"}
    action = {"metaData": {**metadata, "configuration": mapped}}
    (case.folder / "out" / commit_name(version)).write_text(json.dumps(action))


def before_its_end(_: GenerationCase, generation: Generation) -> None:
    generation.delete("positions/history-end.json")


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (merged, "`sink.mode: merge`"),
        (with_another_setting, "`spark.sql.…` of `spark.conf`"),
        (with_another_key, "more than the transform has changed"),
        (with_bad_records, "records were left out"),
        (by_two_transforms, "several transforms have computed its rows"),
        (by_no_known_transform, "no record of its transform"),
        (changed_by_others, "others have changed rows of its table"),
        (with_mapped_columns, "its table has column mapping"),
        (before_its_end, "has not read `history` to its end"),
    ],
)
def test_rows_that_a_full_rerun_might_not_give_are_refused_before_anything_is_begun(
    case: GenerationCase,
    asked: Asked,
    edit: Callable[[GenerationCase, Generation], None],
    told: str,
) -> None:
    edit(case, read_generation(case.loaded.state, "g1"))
    with pytest.raises(StateError) as refused:
        begin_changed_columns(case.loaded)
    assert told in refused.value.message
    assert "`hybrid generation new P`" in refused.value.hint
    assert (waiting(case.loaded), asked.requests) == (None, [])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"before": "c0"}, "not the one that it ran by"),
        ({"changed": []}, "the same columns as before"),
    ],
)
def test_what_the_comparison_finds_may_refuse_it_too(
    case: GenerationCase, asked: Asked, changes: dict[str, Any], told: str
) -> None:
    asked.says(**changes)
    with pytest.raises(StateError, match=told):
        begin_changed_columns(case.loaded)
    assert waiting(case.loaded) is None


def test_a_refusal_of_the_comparison_is_told_as_it_is(case: GenerationCase, asked: Asked) -> None:
    refusal = InputError("Column `w` is computed from `x`.", "Begin it.", column="w")
    asked.answer = ColumnsAnswer(refusal=refusal.report())
    with pytest.raises(InputError, match="computed from `x`") as refused:
        begin_changed_columns(case.loaded)
    assert refused.value.fields["column"] == "w"


def test_the_plan_follows_the_transform_until_the_rows_are_pinned(
    case: GenerationCase, asked: Asked
) -> None:
    generation = begin_changed_columns(case.loaded)
    asked.says(code="c3", kept=["id"])
    operations.plan(case.loaded)
    made = read_changed_columns(generation)
    assert made is not None
    assert (made.difference.code, made.difference.kept) == ("c3", ["id"])

    serving = PipelineContext(case.loaded, read_generation(case.loaded.state, "g1"))
    case.append(serving.generation, pa.table({"id": [3], "v": [3]}), 1)
    pinned = pin(serving, generation)
    text = "v1\n{}\n-"
    assert (pinned.batch, pinned.offsets) == (1, {"0": text, "1": text})
    assert pinned.commit == "v1\n{}"
    assert pinned.table_version == DeltaTable(case.folder / "out").version()
    assert pin(serving, generation) == pinned
    count = len(asked.requests)
    operations.plan(case.loaded)
    assert len(asked.requests) == count


def test_another_declaration_does_not_turn_it_into_a_full_rerun(
    case: GenerationCase, asked: Asked
) -> None:
    generation = begin_changed_columns(case.loaded)
    case.write(key=["id", "v"])
    with pytest.raises(StateError, match="more than the transform has changed"):
        operations.plan(case.loaded)
    assert generation.exists("changed-columns.json")
    assert discard(case.loaded) == "g2"


def test_one_that_was_planned_for_all_columns_is_kept(case: GenerationCase, asked: Asked) -> None:
    generation = begin(case.loaded)
    operations.plan(case.loaded)
    with pytest.raises(StateError, match="planned to compute all columns"):
        begin_changed_columns(case.loaded)
    assert not generation.exists(PinnedVersion.NAME)


def test_a_pipeline_that_has_not_run_has_no_rows_to_take(tmp_path: Path) -> None:
    with pytest.raises(HybridError, match="it has not run yet"):
        begin_changed_columns(GenerationCase(tmp_path).loaded)
