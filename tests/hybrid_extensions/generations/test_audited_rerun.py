"""A rerun is audited before its promotion if the pipeline declares that; a failed one is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from hybrid_extensions.generations import lifecycle
from orchestration.comparison.kept_audit import read_audit
from orchestration.defs.keys import table_key
from orchestration.pipeline_definitions import pipeline_definitions
from sources.errors import StateError
from sources.generations import begin
from sources.serving import read_serving
from sources.state.generation import read_generation
from tests.extensions import needs
from tests.hybrid_extensions.generations.test_generation_jobs import run
from tests.orchestration.generations.generation_case import GenerationCase

pytestmark = needs("audit")
RIGHT = {1: 10, 2: 20}
WRONG = {1: 10, 2: 99}
DECLARED = {"audit": {"sql": "audit.sql"}}


@pytest.fixture(autouse=True)
def computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate is computed already."""
    monkeypatch.setattr(lifecycle, "run_chain", lambda _: None)


def candidate(folder: Path, rows: dict[int, int], **declared: Any) -> GenerationCase:
    """A pipeline whose candidate has some rows; its input makes ``RIGHT`` of them."""
    case = GenerationCase(folder)
    (folder / "audit.sql").write_text("SELECT id, v FROM input")
    (folder / "in").mkdir()
    lines = [{"id": key, "at": "2023-01-01T00:00:00Z", "v": v} for key, v in RIGHT.items()]
    (folder / "in" / "a.json").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    case.write(**declared)
    case.run({1: 10})
    begin(case.loaded)
    case.run(rows)
    return case


def rerun(case: GenerationCase, *, is_audited: bool | None = None) -> str:
    """Rerun with a promotion; return which generation serves."""
    said: list[str] = []
    served = lifecycle.rerun(
        case.loaded, promote=True, rows_at_least=0.9, is_audited=is_audited, say=said.append
    )
    return served.generation


def test_a_declared_audit_that_fails_holds_the_promotion_back_and_is_kept(tmp_path: Path) -> None:
    case = candidate(tmp_path, WRONG, **DECLARED)
    with pytest.raises(StateError, match=r"g2 is not promoted.*1 different") as caught:
        rerun(case)
    assert "`hybrid generation promote P`" in caught.value.hint
    assert read_serving(case.loaded).generation == "g1"
    kept = read_audit(read_generation(case.loaded.state, "g2"))
    assert kept is not None
    assert kept.outcome == "failed"
    assert rerun(case, is_audited=False) == "g2", "for people who leave it out"


def test_a_person_who_is_to_promote_is_told_the_verdict_and_a_failure_fails_no_work(
    tmp_path: Path,
) -> None:
    case = candidate(tmp_path, WRONG, **DECLARED)

    def waiting(is_audited: bool | None) -> str:
        said: list[str] = []
        lifecycle.rerun(
            case.loaded, promote=False, rows_at_least=0.9, is_audited=is_audited, say=said.append
        )
        return "\n".join(said)

    assert "audit" not in waiting(is_audited=False)
    told = waiting(is_audited=None)
    assert "Generation g2: The table differs from what its input makes it: 1 different." in told
    assert "otherwise `hybrid generation discard P`" in told
    assert read_serving(case.loaded).generation == "g1"
    kept = read_audit(read_generation(case.loaded.state, "g2"))
    assert kept is not None
    assert kept.outcome == "failed"


def test_the_form_with_never_shows_the_verdict_and_its_run_succeeds(tmp_path: Path) -> None:
    case = candidate(tmp_path, WRONG, **DECLARED)
    with dg.DagsterInstance.ephemeral() as instance:
        done = run(case, instance, "RERUN", promote="NEVER")
        assert done.success
        [seen] = instance.fetch_materializations(table_key(case.loaded), limit=1).records
    assert seen.asset_materialization is not None
    assert "g2: The table differs" in str(seen.asset_materialization.description)


def test_one_that_does_not_fail_is_promoted_with_its_verdict(tmp_path: Path) -> None:
    case = candidate(tmp_path, RIGHT, **DECLARED)
    assert rerun(case) == "g2"
    kept = read_audit(read_generation(case.loaded.state, "g2"))
    assert kept is not None
    assert (kept.outcome, kept.found) != ("failed", 0)


def test_without_a_declaration_none_is_made_unless_it_is_asked_for(tmp_path: Path) -> None:
    case = candidate(tmp_path, WRONG)
    with pytest.raises(StateError, match="g2 is not promoted"):
        rerun(case, is_audited=True)
    assert rerun(case) == "g2"


@pytest.mark.parametrize(
    ("declared", "told"), [(DECLARED, "By default true"), ({}, "By default false")]
)
def test_the_form_says_whether_a_rerun_is_audited(
    tmp_path: Path, declared: dict[str, Any], told: str
) -> None:
    case = GenerationCase(tmp_path)
    case.write(**declared)
    job = pipeline_definitions(case.loaded).resolve_job_def("events_generation")
    config: Any = job.get_node_named("do_events_generation")
    action = config.definition.config_schema.config_type.fields["action"]
    form = action.config_type.non_scalar_type.fields["rerun"].config_type.fields
    assert told in form["audit"].description
