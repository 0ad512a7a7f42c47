"""A package that only the extra installs is named where it is missing."""

from __future__ import annotations

import sys

import pytest

from hybrid_extensions.cdc.databases.replication_slot import ask_slot
from sources.config.source.snapshot import SnapshotOptions
from tests.sources.common.test_optional import SNAPSHOT, take_away


def test_a_slot_that_can_not_be_asked_for_says_which_package_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_away(monkeypatch, "postgres")
    # Other tests may have imported what needs it.
    for name in [name for name in sys.modules if name.startswith("hybrid_extensions.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    answer = ask_slot(SnapshotOptions.model_validate(SNAPSHOT))
    assert isinstance(answer, str)
    assert "hybrid-backfill[postgres]" in answer
