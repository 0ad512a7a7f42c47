"""An audit stays with the state: its numbers, for reports, and no row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from hybrid_extensions.comparison.keeping_audits import keep_audit
from orchestration.comparison.kept_audit import read_audit
from sources.errors import StateError
from sources.state.generation import Generation
from tests.command_line import invoke
from tests.hybrid_extensions.audit.audit_case import Case, row


def test_the_command_keeps_what_it_found(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.history([row(1), row(2)])
    case.late([row(3)])
    case.target([row(1)])
    (tmp_path / "flights.py").write_text("def events(rows):\n    return rows\n")
    query = case.sql("SELECT * FROM history")
    loaded = case.loaded(audit=query)
    document = loaded.pipeline.model_dump(mode="json", exclude_unset=True, by_alias=True)
    loaded.path.write_text(yaml.safe_dump(document))
    generation = loaded.open_generation(create=True)
    assert generation is not None
    shown = invoke(["audit", str(loaded.path), "--json"])
    assert shown.exit_code == 1, shown.output
    kept = read_audit(generation)
    assert kept is not None
    assert (kept.expected, kept.found, kept.missing_rows) == (2, 1, 1)
    assert json.loads(shown.stdout)["examples"], "the command shows rows"
    assert "JFK" not in generation.path("audit.json").read_text()


def test_an_audit_that_can_not_be_kept_is_shown_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path)
    case.history([row(1)])
    case.late([row(2)])
    case.target([row(1), row(2)])
    loaded = case.loaded(audit=case.sql("SELECT * FROM history UNION ALL SELECT * FROM late"))
    loaded.open_generation(create=True)

    def refuse(*_: object) -> None:
        raise StateError("The state can't be written.", "Ask its owner.")

    monkeypatch.setattr(Generation, "replace", refuse)
    made = keep_audit(
        loaded, case.audit(audit=case.sql("SELECT * FROM history UNION SELECT * FROM late"))
    )
    assert made.outcome == "passed"
    assert "This audit is not kept: The state can't be written." in made.notes[-1]
