"""The table in Dagster: an asset with its lineage, its facts and its health."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from pydantic import ValidationError

from orchestration.defs.assets.table import kept_action, last_action, table_metadata
from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.progress.table_facts import table_facts
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.table.about import About
from sources.generations import begin
from sources.kept_definitions import keep_definition
from sources.planning.transform_analysis import OutputColumn, TransformAnalysis, keep_analysis
from sources.state import action_log
from sources.state.action_log import begin_action, end_action, recorded
from tests.orchestration.generations.generation_case import GenerationCase
from tests.orchestration.supervision.live_case import DISK_FULL, LiveCase, sensor_of

TABLE = dg.AssetKey(["events", "table"])
ABOUT = {
    "description": "One row for each event.",
    "owners": ["team:events", "ada@example.com"],
    "tags": {"domain": "shop"},
    "columns": {"v": "What happened."},
    "fresh_within": "6 h",
}


def deps(loaded: LoadedPipeline) -> dict[str, set[str]]:
    graph = pipeline_definitions(loaded).resolve_asset_graph()
    return {
        key.to_user_string(): {each.to_user_string() for each in graph.get(key).parent_keys}
        for key in graph.get_all_asset_keys()
    }


def test_lineage_goes_from_files_and_topic_to_the_table(tmp_path: Path) -> None:
    topic = {
        "type": "kafka",
        "name": "inbox",
        "topic": "events.v1",
        "bootstrap_servers": "localhost:1",
        "format": "json",
    }
    found = deps(LiveCase(tmp_path, inbox=topic).loaded)
    assert found["events/history"] == {"events/plan", "files/" + tmp_path.name + "/in"}
    assert found["events/inbox"] == {"events/inbox_handover", "kafka/events.v1"}
    assert found["events/table"] == {"events/inbox"}
    assert found["kafka/events.v1"] == set()


def test_columns_are_of_the_folder_that_two_sources_are_in(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    [first] = yaml.safe_load((tmp_path / "events.yaml").read_text())["sources"]
    case.write(sources=[first, {**first, "name": "later", "path": "in/*.jsonl"}])
    generation = case.run({1: 10})
    columns = [OutputColumn(name="v", type="bigint", nullable=True, inputs=["id", "v"])]
    keep_analysis(generation, TransformAnalysis(digest="", columns=columns))
    facts = table_facts(case.loaded)
    assert facts is not None
    lineage = table_metadata(case.loaded, facts)["dagster/column_lineage"]
    assert isinstance(lineage, dg.TableColumnLineage)
    folder = dg.AssetKey(["files", tmp_path.name, "in"])
    assert lineage.deps_by_column == {
        "v": [dg.TableColumnDep(folder, name) for name in ("id", "v")]
    }


def test_an_asset_that_a_source_declares_is_its_upstream(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    document = yaml.safe_load((tmp_path / "events.yaml").read_text())
    document["sources"][0]["asset"] = "raw/orders"
    case.write(sources=document["sources"])
    assert deps(case.loaded)["events/history"] == {"events/plan", "raw/orders"}
    document["sources"][0]["asset"] = "/raw"
    case.write(sources=document["sources"])
    with pytest.raises(Exception, match="asset"):
        _ = case.loaded


def test_a_table_that_is_declared_by_its_name_is_upstream_by_that(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    document = yaml.safe_load((tmp_path / "events.yaml").read_text())
    (history,) = (each for each in document["sources"] if each["type"] == "files")
    del history["path"]
    history |= {"format": "delta", "table": "shop.orders"}
    case.write(sources=document["sources"])
    assert deps(case.loaded)[f"events/{history['name']}"] == {"events/plan", "table/shop/orders"}


def test_pipelines_that_read_the_same_topic_share_its_asset(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    one, document = case.loaded, yaml.safe_load((tmp_path / "events.yaml").read_text())
    (tmp_path / "other.yaml").write_text(yaml.safe_dump({**document, "name": "other"}))
    other = load_pipeline(tmp_path / "other.yaml")
    both = dg.Definitions.merge(pipeline_definitions(one), pipeline_definitions(other))
    dg.Definitions.validate_loadable(both)
    children = (
        both.resolve_asset_graph().get(dg.AssetKey(["files", tmp_path.name, "in"])).child_keys
    )
    assert {key.path[0] for key in children} == {"events", "other"}


def test_the_table_carries_what_the_declaration_says_about_it(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.write(about=ABOUT)
    spec = pipeline_definitions(case.loaded).resolve_asset_graph().get(TABLE)
    assert spec.owners == ["team:events", "ada@example.com"]
    assert spec.tags["domain"] == "shop"
    assert (spec.description or "").startswith("One row for each event.")
    assert spec.metadata["dagster/table_name"] == "events"
    assert spec.metadata["dagster/uri"] == str(tmp_path / "out")
    declaration, transform = spec.metadata["dagster/code_references"].code_references
    assert declaration.file_path == str(tmp_path / "events.yaml")
    assert (transform.file_path, transform.line_number) == (str(tmp_path / "transforms.py"), 4)
    policy: Any = spec.freshness_policy
    assert policy.fail_window.to_timedelta() == timedelta(hours=6)


def test_the_code_of_a_query_is_its_file(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    (tmp_path / "events.sql").write_text("SELECT * FROM input")
    case.write(transform={"sql": "events.sql"})
    spec = pipeline_definitions(case.loaded).resolve_asset_graph().get(TABLE)
    _, transform = spec.metadata["dagster/code_references"].code_references
    assert (transform.file_path, transform.line_number) == (str(tmp_path / "events.sql"), 1)


@pytest.mark.parametrize(
    "change", [{"owners": ["ada"]}, {"fresh_within": "30 s"}, {"colour": "red"}]
)
def test_what_a_catalog_would_not_take_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        About.model_validate({**ABOUT, **change})


def materialized(loaded: LoadedPipeline, instance: dg.DagsterInstance) -> dict[str, Any]:
    job = pipeline_definitions(loaded).resolve_job_def("events")
    done = job.execute_in_process(instance=instance, asset_selection=[TABLE])
    assert done.success
    [event] = done.asset_materializations_for_node("events__table")
    return dict(event.metadata)


def test_the_table_asset_shows_rows_columns_version_and_who_serves(tmp_path: Path) -> None:
    case = GenerationCase(tmp_path)
    case.write(about=ABOUT)
    case.run({1: 10, 2: 20})
    with dg.DagsterInstance.ephemeral() as instance:
        shown = materialized(case.loaded, instance)
    assert shown["dagster/row_count"].value == 2
    assert shown["generation"].value == "g1"
    columns = {each.name: each for each in shown["dagster/column_schema"].schema.columns}
    assert (columns["v"].type, columns["v"].description) == ("bigint", "What happened.")
    assert next(iter(shown)) == "now"
    assert "serving g1" in shown["now"].value
    assert 0 < shown["size (MB)"].value < 0.1


def test_the_table_assets_description_links_to_its_state(tmp_path: Path) -> None:
    spec = pipeline_definitions(GenerationCase(tmp_path).loaded).resolve_asset_graph().get(TABLE)
    assert "[How it is now](?view=checks&checkDetail=healthy)" in (spec.description or "")


def reported(case: LiveCase, cursor: str | None = None) -> dg.SensorResult:
    with dg.DagsterInstance.ephemeral() as instance:
        found = sensor_of(case.loaded)(dg.build_sensor_context(instance=instance, cursor=cursor))
    assert isinstance(found, dg.SensorResult)
    return found


def kinds(found: dg.SensorResult) -> list[str]:
    return [type(each).__name__ for each in found.asset_events if each.asset_key == TABLE]


def health(found: dg.SensorResult) -> tuple[bool, str]:
    [check] = [
        each
        for each in found.asset_events
        if isinstance(each, dg.AssetCheckEvaluation) and each.check_name == "healthy"
    ]
    return check.passed, check.severity.value


def test_a_change_of_health_is_a_materialization_and_the_rest_an_observation(
    tmp_path: Path,
) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    with case.alive():
        first = reported(case)
        assert kinds(first) == ["AssetMaterialization", "AssetCheckEvaluation"]
        assert health(first) == (True, "WARN")
        assert first.cursor is not None
        later = first.cursor.replace('"at_ms":', '"at_ms":1,"was":')
        assert kinds(reported(case, later)) == ["AssetObservation", "AssetCheckEvaluation"]
    case.launch("a", state="failed", failure=DISK_FULL)
    failed = reported(case, later)
    assert kinds(failed) == ["AssetMaterialization", "AssetCheckEvaluation"]
    assert health(failed) == (False, "ERROR")


def test_a_table_that_can_not_be_read_does_not_hide_the_verdict(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    (tmp_path / "out/_delta_log").mkdir(parents=True)
    (tmp_path / "out/_delta_log/00000000000000000000.json").write_text("no log")
    with case.alive():
        found = reported(case)
    assert health(found) == (False, "ERROR")
    names = {e.check_name for e in found.asset_events if isinstance(e, dg.AssetCheckEvaluation)}
    assert {"alive", "lag"} <= names


def test_what_a_job_has_done_stays_on_the_page_until_the_next_thing(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    key = dg.AssetKey(["events", "table"])
    with dg.DagsterInstance.ephemeral() as instance:
        assert kept_action(instance, case.loaded) == {}
        done = last_action("One row of history replaced by 1.")
        instance.report_runless_asset_event(dg.AssetMaterialization(key, metadata=done))
        [(_, text)] = kept_action(instance, case.loaded).items()
        # As the supervision reports the table again.
        kept = kept_action(instance, case.loaded)
        instance.report_runless_asset_event(dg.AssetMaterialization(key, metadata=kept))
        assert kept_action(instance, case.loaded) == kept
        # A proof of the table is no new version of it.
        proved = last_action("AUDIT: The table is right.")
        instance.report_runless_asset_event(dg.AssetObservation(key, metadata=proved))
        [(_, latest)] = kept_action(instance, case.loaded).items()
        assert str(latest.value).startswith("AUDIT: The table is right.")
    assert str(text.value).startswith("One row of history replaced by 1.")


def test_a_later_start_or_stop_from_elsewhere_takes_the_place_of_what_a_job_has_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = LiveCase(tmp_path)
    key = dg.AssetKey(["events", "table"])
    with dg.DagsterInstance.ephemeral() as instance:
        with recorded(case.loaded.state, "stop", "Ada", "g1"):
            pass
        done = last_action("STOP: Stopped live (generation g1).")
        instance.report_runless_asset_event(dg.AssetMaterialization(key, metadata=done))
        assert kept_action(instance, case.loaded) == done, "the log tells of the same"
        monkeypatch.setattr(action_log, "now_ms", lambda: now_ms() + 2_000)
        with recorded(case.loaded.state, "resume", "Bob", "g1"):
            pass
        [(_, row)] = kept_action(instance, case.loaded).items()
        assert str(row.value).startswith("resume of g1 by Bob")


def test_what_a_job_has_done_is_told_in_lines_that_fit_the_page_with_the_time_last() -> None:
    [text] = last_action(f"AUDIT: The table is right, {'and right ' * 90}.").values()
    assert isinstance(text, dg.MarkdownMetadataValue)
    lines = text.value.splitlines()
    assert lines[0].startswith("AUDIT: The table is right, and right")
    assert max(len(line.rstrip()) for line in lines) <= 60
    assert re.fullmatch(r"\d+ \w+ \d{4} \d\d:\d\d:\d\d UTC", lines[-1])
    assert len(text.value) < 1000, "more is not shown in full"


def shown(found: dg.SensorResult) -> str:
    """The card on the table's page."""
    [card] = [
        each.metadata["now"].value
        for each in found.asset_events
        if each.asset_key == TABLE and not isinstance(each, dg.AssetCheckEvaluation)
    ]
    return str(card)


def test_the_page_has_ten_rows_whoever_reports_it(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    write_deltalake(str(tmp_path / "out"), pa.table({"id": [1, 2]}))
    with case.alive():
        first = reported(case)
    [page] = [
        each
        for each in first.asset_events
        if isinstance(each, dg.AssetMaterialization) and each.asset_key == TABLE
    ]
    assert "{'id': '1'}" in str(page.metadata["ten of the rows"])


def test_the_page_follows_a_candidate_from_state_to_state(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    with case.alive():
        first = reported(case)
        case.generation.replace_bytes("checkpoint/offsets/0", b"v1")
        keep_definition(case.loaded, case.generation)
        begin(case.loaded)
        second = reported(case, first.cursor)
    assert "candidate none" not in shown(second)
    assert kinds(second)[0] == "AssetMaterialization"
    assert "candidate g2 (not started)" in shown(second)


def test_an_action_that_was_shown_as_begun_is_shown_again_once_it_has_ended(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a")
    with case.alive():
        number = begin_action(case.loaded.state, "pause", "Ada")
        first = reported(case)
        assert "pause by Ada: begun" in shown(first)
        end_action(case.loaded.state, number, "done")
        second = reported(case, first.cursor)
    # Pages show the last materialization.
    assert kinds(second)[0] == "AssetMaterialization"
    assert "begun" not in shown(second)
