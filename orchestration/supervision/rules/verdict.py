"""Verdict on a live run: the words for its health, which of them are red, and its findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sources.errors import ErrorReport

Health = Literal[
    "healthy",
    "starting",
    "paused",
    "stopped",
    "dead",
    "failed",
    "stuck",
    "catching-up",
    "late",
    "dropping-rows",
    "wrong-rows",
    "cut-off",
    "crash-looping",
]
"""``dead`` is restarted; ``failed`` is not, since its error would only occur again.

``catching-up`` is neither red nor healthy: the run works, and needs a while for what waits, or how
much waits is unknown at the moment.
"""
RED: frozenset[Health] = frozenset(
    {"dead", "failed", "stuck", "late", "dropping-rows", "wrong-rows", "cut-off", "crash-looping"}
)
FindingName = Literal["alive", "lag", "waiting_time", "late_rows", "wrong_rows", "slot"]
FINDINGS: dict[FindingName, str] = {
    "alive": "The live run is up and commits what arrives.",
    "lag": "No more input waits than `supervision.lag` allows.",
    "waiting_time": "Input waits no longer than `supervision` allows, and is soon committed.",
    "late_rows": "No more rows than declared arrive behind the watermark.",
    "wrong_rows": "No row is stale or missing because a change of it could not be read.",
    "slot": "The database keeps its log for the connector, and the connector reads it.",
}


def expected_findings(*, has_slot: bool, is_mirror: bool = False) -> dict[FindingName, str]:
    """Return the expectations of a pipeline's live run: a sentence by name of each check.

    Args:
        has_slot: Whether the changes come through a replication slot, which is then watched, too.
        is_mirror: Whether the pipeline mirrors a table and leaves out changes that can't be read.
    """
    others = {"slot": has_slot, "wrong_rows": is_mirror}
    return {name: text for name, text in FINDINGS.items() if others.get(name, True)}


class Finding(BaseModel):
    """Expectation of the live run, and whether it is met.

    Attributes:
        name: Name of the check, a key of :data:`FINDINGS`.
        passed: Whether it holds.
        is_pending: Whether a failure only warns: people paused or stopped the run, a launch is
            under way, or the cause may pass.
        text: What was found, in sentences.
        value: The number that was judged; None if there is none.
        limit: The highest value that passes; None if there is none.
        unit: Unit of both, such as ``s``; empty if there is no value.
    """

    model_config = ConfigDict(frozen=True)

    name: FindingName
    passed: bool
    is_pending: bool = False
    text: str
    value: float | None = None
    limit: float | None = None
    unit: str = ""


class Verdict(BaseModel):
    """Verdict on the live run.

    Attributes:
        health: One word; :data:`RED` has those that alert people.
        reason: Why, in sentences.
        down: Whether the process is ``dead`` or ``stuck``, so that a restart may help; None
            otherwise.
        waits_for: What has to be over before a restart is tried: a broker that does not answer, or
            a folder that can't be written; None if no restart is due, or none has to wait.
        failure: The error that ended the run, or that kept it from being launched; None if it runs,
            or ended without a report.
        error: Text of the last failure, even if the run works again by now; None if it never
            failed.
        findings: What is expected of the run, one by one.
        numbers: The figures behind it by name, with units in the names; unknown ones are left out.
    """

    model_config = ConfigDict(frozen=True)

    health: Health
    reason: str
    down: Literal["dead", "stuck"] | None = None
    waits_for: ErrorReport | None = None
    failure: ErrorReport | None = None
    error: str | None = None
    findings: list[Finding] = Field(default_factory=list)
    numbers: dict[str, int | float] = Field(default_factory=dict)

    def rendered(self, show: Callable[[str], str]) -> Verdict:
        """Return the verdict with other texts, such as with other remedies; figures stay.

        ``failure`` and ``waits_for`` stay as they are.

        Args:
            show: Returns what takes the place of a text.
        """
        findings = [each.model_copy(update={"text": show(each.text)}) for each in self.findings]
        error = None if self.error is None else show(self.error)
        told = {"reason": show(self.reason), "error": error, "findings": findings}
        return self.model_copy(update=told)

    @property
    def is_red(self) -> bool:
        """Whether the health is one of :data:`RED`, so that people are alerted."""
        return self.health in RED
