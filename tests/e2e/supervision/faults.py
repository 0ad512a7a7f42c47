"""Faults of what a live run needs: what the supervision says meanwhile, and after how long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from orchestration.supervision.supervisor import restart, tick
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from tests.e2e.case import live_of
from tests.services.processes import wait_for

TOLD_S = 60.0
"""What fails is named within this time."""
_BACK_S = 600.0


class Look(NamedTuple):
    """What a look says.

    Attributes:
        health: In one word; ``unknown`` of a look that failed.
        reason: Why.
        lag: Records that wait; None if that is unknown.
        restarts: How often the run was restarted within the window.
    """

    health: str
    reason: str
    lag: float | None = None
    restarts: float = 0


def look(loaded: LoadedPipeline) -> Look:
    """Look as the supervision does, without a restart."""
    found = tick(loaded)
    assert found is not None
    numbers = found.verdict.numbers
    return Look(
        found.verdict.health, found.verdict.reason, numbers.get("lag"), numbers.get("restarts", 0)
    )


def supervise(loaded: LoadedPipeline) -> Look:
    """Do what Dagster's sensor does at a tick, and launch a restart that is due."""
    try:
        found = tick(loaded)
        assert found is not None
        if found.restart is not None:
            restart(loaded, live_of(loaded))
        return look(loaded)
    except HybridError as error:
        return Look("unknown", str(error))


def watch(
    seen: Callable[[], Look], named: Callable[[str], bool], seconds: float, *, is_named: bool = True
) -> dict[str, Any]:
    """Look while a fault lasts; at least until it is named, if it has to be.

    Args:
        seen: Looks once.
        named: Whether a reason names the fault.
        seconds: How long the fault lasts.
        is_named: Whether it has to be named.
    """
    begun, named_s, reason = time.monotonic(), None, ""
    healths: list[str] = []
    while (past := time.monotonic() - begun) < seconds or (is_named and named_s is None):
        assert past < 6 * TOLD_S, f"it is not named: {healths}, {reason}"
        found = seen()
        if not healths or found.health != healths[-1]:
            healths.append(found.health)
        reason = found.reason
        if named_s is None and named(reason):
            named_s = round(time.monotonic() - begun, 1)
        time.sleep(0.5)
    return {"health": healths, "named after, s": named_s, "reason": reason}


def seconds_until_well(seen: Callable[[], Look]) -> float:
    """Look until the run is healthy and nothing waits; return how long that took."""
    begun = time.monotonic()
    last: list[Look] = []

    def is_well() -> bool:
        last[:] = [seen()]
        return (last[0].health, last[0].lag) == ("healthy", 0)

    wait_for(is_well, lambda: f"a run that has caught up: {last}", _BACK_S)
    return round(time.monotonic() - begun, 1)


def late(told: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Those faults that were named too late."""
    return (each for each in told if (each["named after, s"] or 0) > TOLD_S)
