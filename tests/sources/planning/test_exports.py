"""Sources that are exported to files before the plan: once a generation, and never by halves."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.servers.s3 import LOGIN, LocalS3, client
from sources.common.positions import TopicPartition
from sources.common.times import to_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.exported_source import Export, ExportedFiles, ExportedSource, ExportEnd
from sources.config.source.file_source import FileSource
from sources.errors import InputError, RunError, StateError
from sources.files.listing.source_listing import list_source
from sources.planning.context import PipelineContext
from sources.planning.exports import ExportRecord, take_export, with_required_exports
from sources.planning.files.file_plan import FilePlan, plan_files
from sources.planning.plan import make_plan
from sources.state.generation import Generation
from tests.minimal import minimal_model
from tests.sources.planning.export_kind import BEGIN, Numbers, Resumed, row

LIVE = {"type": "kafka", "name": "live", "topic": "t", "schema": {"id": "bigint"}}


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    Numbers.found = []
    yield
    Numbers.meanwhile = lambda _: None
    Numbers.end = ExportEnd()


class Case:
    """A pipeline with such a source, and its first generation."""

    def __init__(self, folder: Path, kind: ExportedSource, *after: Any, **fields: Any) -> None:
        pipeline = minimal_model(kind.as_files(), *after, **fields)  # type: ignore[arg-type]
        self.loaded = LoadedPipeline(folder / "orders.yaml", pipeline)
        generation = self.loaded.open_generation(create=True)
        assert generation is not None
        self.generation: Generation = generation
        [self.source] = pipeline.exported_sources

    def take(self) -> ExportRecord:
        return take_export(self.loaded, self.generation, self.source, lambda _: None)

    def planned(self) -> FilePlan:
        """The source's part of a plan, which asks no broker."""
        self.take()
        placed = with_required_exports(self.loaded, self.generation)
        [source] = placed.pipeline.exported_sources
        part, _ = plan_files(placed, source, list_source(placed, source))
        return part

    def folder(self) -> Path:
        """The folder of the only export's files."""
        [found] = {path.parent for path in self.generation.path("exports").rglob("*.parquet")}
        return found

    def files(self) -> set[str]:
        """Names of all files of exports in the state, whatever the attempt."""
        return {path.name for path in self.generation.path("exports").rglob("*.parquet")}


def fail_at(number: int) -> Callable[[int], None]:
    def meanwhile(at: int) -> None:
        if at == number:
            message = "the line is cut"
            raise ConnectionError(message)

    return meanwhile


def test_an_export_is_taken_once_for_a_generation(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"))
    first = case.take()
    assert first.files.keys() == {"0.parquet", "1.parquet"}
    assert case.take() == first
    assert len(Numbers.found) == 1


def test_a_plan_refuses_an_export_that_is_not_complete(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"))
    with pytest.raises(StateError, match=r"not exported yet.*`hybrid step P history_export`"):
        make_plan(case.loaded)
    Numbers.meanwhile = fail_at(1)
    with pytest.raises(
        RunError,
        match=r"`history` failed in the code of `type: numbers`: ConnectionError: the line is",
    ):
        case.take()
    assert case.files() == {"0.parquet"}
    with pytest.raises(StateError, match="not exported yet"):
        make_plan(case.loaded)


def test_an_interrupted_export_begins_again_in_an_empty_folder(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history", rows=3))
    Numbers.meanwhile = fail_at(2)
    with pytest.raises(RunError):
        case.take()
    Numbers.meanwhile = lambda _: None
    case.take()
    assert Numbers.found == [[], []]
    assert len(list(case.generation.path("exports").rglob("*.parquet"))) == 3


def test_a_kind_may_resume_with_the_files_that_it_has_written(tmp_path: Path) -> None:
    case = Case(tmp_path, Resumed(name="history"))
    Numbers.meanwhile = fail_at(1)
    with pytest.raises(RunError):
        case.take()
    Numbers.meanwhile = lambda _: None
    case.take()
    assert Numbers.found == [[], ["0.parquet"]]


def test_of_two_exports_at_once_the_first_to_end_is_read(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"))
    others: list[ExportRecord] = []

    def other_process(number: int) -> None:
        if number == 1 and not others:
            others.append(ExportRecord.model_construct())
            others[0] = case.take()

    Numbers.meanwhile = other_process
    assert case.take() == others[0]
    [only] = case.generation.path("exports").glob("*/*")
    assert only.name == others[0].folder


def test_another_declaration_is_another_export(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"))
    case.take()
    changed = Numbers(name="history", rows=3).as_files()
    with pytest.raises(StateError, match=r"`sources\.history\.export` .* changed"):
        LoadedPipeline(case.loaded.path, minimal_model(changed)).require_generation()  # type: ignore[arg-type]
    made = take_export(case.loaded, case.generation, changed, lambda _: None)
    assert len(made.files) == 3


def test_how_fast_the_files_are_read_and_what_is_selected_exports_nothing_again(
    tmp_path: Path,
) -> None:
    case = Case(tmp_path, Numbers(name="history"))
    case.take()
    select = {"id": "id + 1", "at": "at"}
    faster = Numbers(name="history", select=select, rate={"files": 2}).as_files()  # type: ignore[arg-type]
    take_export(case.loaded, case.generation, faster, lambda _: None)
    assert len(Numbers.found) == 1


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (None, "returned None, which is no `ExportEnd`"),
        (ExportEnd(sequence=5), "does not name the column that holds the log position"),
    ],
)
def test_an_end_that_nothing_can_be_compared_with_is_refused(
    tmp_path: Path, end: Any, why: str
) -> None:
    case = Case(tmp_path, Numbers(name="history"), LIVE)
    Numbers.end = end
    with pytest.raises(InputError, match=why) as caught:
        case.take()
    assert "the module `tests.sources.planning.export_kind`, which adds `type: numbers`" in str(
        caught.value
    )
    with pytest.raises(StateError, match="not exported yet"):
        with_required_exports(case.loaded, case.generation)


def test_offsets_need_a_topic_right_after(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"))
    Numbers.end = ExportEnd(offsets={TopicPartition("t", 0): 7})
    with pytest.raises(InputError, match="ends at offsets of a topic"):
        case.take()


def test_an_export_without_a_file_is_refused(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history", rows=0))
    with pytest.raises(InputError, match="has written no file to read"):
        case.take()


def test_files_that_are_not_those_of_the_export_are_refused(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"))
    case.take()
    folder = case.folder()
    (folder / "2.parquet").write_bytes(row(2))
    with pytest.raises(StateError, match=r"2\.parquet was added to .*Move the file elsewhere"):
        make_plan(case.loaded)
    (folder / "2.parquet").unlink()
    (folder / "1.parquet").write_bytes(b"other")
    with pytest.raises(StateError, match=r"1\.parquet .*was changed"):
        make_plan(case.loaded)
    (folder / "1.parquet").unlink()
    with pytest.raises(StateError, match=r"1\.parquet .*is missing"):
        make_plan(case.loaded)


def test_notes_of_a_kind_beside_its_files_are_not_read(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"))
    case.take()
    (case.folder() / "_notes.json").write_text("{}")
    assert make_plan(case.loaded).files_of("history").splits == 2


def test_a_plan_reads_the_export_and_ends_where_its_rows_do(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"), allowed_lateness="1 s")
    case.take()
    part = make_plan(case.loaded).files_of("history")
    assert (part.splits, part.rows, part.columns) == (2, 2, {"id": "bigint", "at": "timestamp"})
    assert part.end.event_time_ms == to_ms(BEGIN) + 1000
    assert part.end.complete_through_ms == to_ms(BEGIN)
    assert part.end.evidence == "timestamp"


def test_an_export_may_end_at_a_time_a_log_position_or_offsets(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"), LIVE, sequence="lsn")
    through = BEGIN + timedelta(hours=1)
    Numbers.end = ExportEnd(complete_through=through, sequence=5)
    end = case.planned().end
    assert (end.complete_through_ms, end.sequence, end.evidence) == (to_ms(through), 5, "sequence")
    other = Case(tmp_path, Numbers(name="history", rows=1), LIVE, name="other")
    Numbers.end = ExportEnd(offsets={TopicPartition("t", 0): 7})
    end = other.planned().end
    assert end.evidence == "offsets"
    assert end.offsets is not None
    assert end.offsets.exact
    assert end.offsets.next == {TopicPartition("t", 0): 7}


def test_an_export_without_rows_ends_where_it_says_to_be_complete(tmp_path: Path) -> None:
    class Empty(Numbers):
        def export(self, export: Export) -> ExportEnd:
            export.folder.replace_bytes("none.parquet", row(0, rows=0))
            return ExportEnd(complete_through=BEGIN)

    case = Case(tmp_path, Empty(name="history"))
    case.take()
    end = make_plan(case.loaded).files_of("history").end
    assert (end.event_time_ms, end.rows) == (to_ms(BEGIN), 0)


def test_a_run_finds_the_export_and_the_digests_are_those_from_before(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"))
    case.take()
    context = PipelineContext.require(case.loaded)
    [source] = context.pipeline.exported_sources
    assert source.patterns[0].startswith(f"{case.generation.url}/exports/history-")
    assert context.loaded.require_generation().name == "g1"


def test_the_state_may_be_in_a_folder_whose_name_looks_like_a_glob(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"), state="state [old]")
    case.take()
    assert make_plan(case.loaded).files_of("history").splits == 2


def test_tasks_get_a_file_source_without_the_module_of_the_kind(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"))
    case.take()
    [source] = PipelineContext.require(case.loaded).pipeline.exported_sources
    sent = pickle.loads(pickle.dumps(source))
    assert type(sent) is FileSource
    assert sent.patterns == source.patterns
    assert pickle.dumps(source).find(b"Numbers") == -1


def test_the_same_files_can_be_declared_as_files(tmp_path: Path) -> None:
    case = Case(tmp_path, Numbers(name="history"))
    case.take()
    [source] = PipelineContext.require(case.loaded).pipeline.exported_sources
    declared = source.declaration()
    assert declared["type"] == "files"
    assert FileSource.model_validate(declared) == source.plain()


def test_a_source_can_not_have_the_name_of_the_step_that_exports_another() -> None:
    files = {"type": "files", "name": "history_export", "format": "parquet", "path": "in/*"}
    with pytest.raises(ValueError, match="`history_export` has the name of the step"):
        minimal_model(Numbers(name="history").as_files(), files)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reading", "why"),
    [
        ({"format": "json"}, "`schema` is needed: json files do not carry"),
        ({"format": "delta"}, "`format` can't be what `reading` of `type: numbers` returns"),
        ({"format": "parquet", "discovery_interval": "1 s"}, "`discovery_interval` can't be what"),
    ],
)
def test_what_a_kind_says_of_its_files_has_to_fit(reading: dict[str, Any], why: str) -> None:
    class Other(Numbers):
        def reading(self) -> dict[str, Any]:
            return reading

    with pytest.raises(ValueError, match=why) as caught:
        Other(name="history").as_files()
    assert "validation error" not in str(caught.value)
    assert isinstance(Numbers(name="history").as_files(), ExportedFiles)


@pytest.mark.slow
def test_an_export_is_in_the_store_of_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    with LocalS3() as server:
        client(server.endpoint).create_bucket(Bucket="lake")
        state = {"state": "s3://lake/state", "s3": {"endpoint": server.endpoint}}
        case = Case(tmp_path, Numbers(name="history", rows=3), **state)
        Numbers.meanwhile = fail_at(2)
        with pytest.raises(RunError):
            case.take()
        Numbers.meanwhile = lambda _: None
        case.take()
        exported = [name for name in case.generation.names("exports/*") if "parquet" in name]
        assert len(exported) == 3, "those of the attempt that failed are removed"
        assert case.planned().splits == 3
        [source] = PipelineContext.require(case.loaded).pipeline.exported_sources
        assert source.patterns[0].startswith("s3://lake/state/orders/g1/exports/history-")
