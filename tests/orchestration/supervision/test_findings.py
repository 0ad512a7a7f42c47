"""Findings of several live runs that are shown as one."""

from __future__ import annotations

from orchestration.supervision.rules.findings import merge_findings
from orchestration.supervision.rules.verdict import Finding


def test_of_two_live_runs_the_worst_one_counts_with_its_number() -> None:
    late = Finding(name="lag", passed=False, text="Much waits.", value=9, limit=3, unit="records")
    good = Finding(name="lag", passed=True, text="Nothing waits.", value=0, limit=3, unit="records")
    [found] = merge_findings([("g1", [good]), ("g2", [late])])
    assert found == late.model_copy(update={"text": "g1: Nothing waits. g2: Much waits."})
