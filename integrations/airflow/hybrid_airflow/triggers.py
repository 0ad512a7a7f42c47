"""Trigger that looks at a live run from Airflow's triggerer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from hybrid_airflow.command import Answer, find_problem, is_off


class LiveRunTrigger(BaseTrigger):
    """Trigger that fires when a pipeline is not healthy, or when it was watched for long enough.

    Its event is the problem, a text, or None.

    Args:
        line: Program and arguments of ``hybrid status``.
        until_s: When to fire if all is well, in seconds since 1970; later if the live run is
            stopped or paused then.
        interval_s: Seconds between two looks.
    """

    def __init__(self, line: list[str], until_s: float, interval_s: float) -> None:
        super().__init__()
        self.line = line
        self.until_s = until_s
        self.interval_s = interval_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments, by which another triggerer continues."""
        kept = {"line": self.line, "until_s": self.until_s, "interval_s": self.interval_s}
        return "hybrid_airflow.triggers.LiveRunTrigger", kept

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look again and again, until there is something to report; yield one event."""
        while True:
            answer = await _run(self.line)
            failure, status = answer.failure, answer.document
            if failure is not None and not failure.transient:
                yield TriggerEvent(failure.text)
                return
            if failure is not None or status is None:
                self.log.warning("The live run can't be looked at now: %s", failure)
            elif (problem := find_problem(status)) is not None:
                yield TriggerEvent(problem)
                return
            elif time.time() >= self.until_s and not is_off(status):
                yield TriggerEvent(None)
                return
            await asyncio.sleep(self.interval_s)


async def _run(line: list[str]) -> Answer:
    process = await asyncio.create_subprocess_exec(
        *line, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        printed, _ = await process.communicate()
    finally:
        # The task was cancelled in the meantime.
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert process.returncode is not None
    return Answer(process.returncode, printed.decode())
