"""Wait of a repair for the live run, as rows whose changes it has not committed yet differ, too."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from hybrid_extensions.repair.repairable_table import RepairedTable
from orchestration.catch_up import UpToNow
from sources.errors import RunError
from spark_jobs.launch import run_control

_POLL_S = 0.3


def wait_for_run(table: RepairedTable, within: timedelta, say: Callable[[str], None]) -> None:
    """Wait until the live run has committed what the database's log and the topic hold now.

    If no live run is active, say so and return at once.

    Args:
        table: The table.
        within: How long to wait at most.
        say: Called with a line of text.

    Raises:
        RunError: The run ended, or has not caught up in time; or no connector reads the log.
        InputError: The topic can't be read, or something was done to the captured table that no
            change reports.
        StateError: The state is damaged.
        UnavailableError: The broker, the database or the state's store does not answer.
    """
    generation, name = table.context.generation, table.topic.name
    if run_control.find_running(generation, name) is None:
        say("The live run does not run, so rows whose changes it has not read count as different.")
        return
    say("Waiting for the live run.")
    deadline, until_now = time.monotonic() + within.total_seconds(), UpToNow(table.context)
    while True:
        beat = run_control.find_running(generation, name)
        if beat is None:
            message = (
                f"The live run of `{name}` ended before it had caught up. Nothing was written."
            )
            hint = (
                "Read why with `hybrid logs P`, start it with `hybrid resume P`; then repair again."
            )
            raise RunError(message, hint, source=name)
        left = until_now.left(beat)
        if until_now.is_committed:
            return
        if time.monotonic() > deadline:
            message = (
                f"The live run of `{name}` has not caught up within "
                f"{within.total_seconds():g} s: {until_now.in_words(left)}. Nothing was written."
            )
            hint = (
                "Repair again once it has caught up (`hybrid status P`), or with a longer "
                "`--within`."
            )
            raise RunError(message, hint, source=name)
        time.sleep(max(_POLL_S, generation.poll_s))
