"""Completion of a promotion or rollback that broke off: when Dagster requests it, and how often."""

from __future__ import annotations

import time

import dagster as dg

from orchestration.defs.jobs.replacement import installed_replacement
from orchestration.defs.keys import generation_name
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.extensions import none_adds
from sources.serving import Switch, pending_switch
from spark_jobs.run_state.table_locks import is_switching

_FINISH_S = 60
"""Seconds between two attempts to complete an interrupted promotion."""


def finish_request(loaded: LoadedPipeline, switch: Switch) -> dg.RunRequest | None:
    """Return the request for the run that completes a switch; None while a process works on it.

    Called by the sensor at each tick: Dagster launches a request of the same key once, and the key
    is another one each minute, until the switch is complete or was given up.

    Args:
        loaded: The pipeline.
        switch: The promotion or rollback that is pending.

    Raises:
        InputError: No extension that completes promotions is installed.
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    if is_switching(loaded.state) or pending_switch(loaded) != switch:
        return None
    if (replacement := installed_replacement()) is None:
        raise none_adds("completes promotions", "complete it where it is installed")
    return dg.RunRequest(
        run_key=f"{loaded.pipeline.name}:{switch.at_ms}:{int(time.time() // _FINISH_S)}",
        job_name=generation_name(loaded),
        run_config=replacement.finish_form(loaded),
    )


def broken_off(switch: Switch) -> StateError:
    """Return the error that is shown while a switch that broke off is not complete."""
    message = (
        f"The {switch.kind} of generation {switch.to} broke off, and live runs may be stopped."
    )
    hint = "A run completes it; if that fails, do what it says, or `hybrid generation abort P`."
    return StateError(message, hint)
