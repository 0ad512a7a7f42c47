"""Waiting driver, kept from step to step of a Dagster run; ended if no later step needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from orchestration.defs.keys import POOL
from sources.config.loader import LoadedPipeline
from spark_jobs.launch.waiting_driver import WaitingDriver, waiting_driver

# By Dagster's run. It ends with the process at the latest, by itself.
_WAITING: dict[str, WaitingDriver] = {}


@contextmanager
def driver_of_plan(
    context: dg.AssetExecutionContext, loaded: LoadedPipeline, *, is_needed: bool
) -> Iterator[WaitingDriver | None]:
    """Yield a Spark driver that the plan may use; it waits for the next step when the context ends.

    It is ended instead if the body fails, or if no later step needs it.

    Args:
        context: The step of the plan.
        loaded: The pipeline.
        is_needed: Whether this Dagster run is to read sources, too.

    Yields:
        None if no driver may wait: the pipeline's settings do not allow it, a pool limits the
        drivers, or it is not needed.
    """
    # Of a step that was tried before, and failed after its driver had been kept.
    if (left := _WAITING.pop(context.run.run_id, None)) is not None:
        left.end()
    may_wait = is_needed and not _waits_for_pool(context.instance)
    made = waiting_driver(loaded) if may_wait else None
    with _kept(context, made, is_needed=is_needed) as driver:
        yield driver


@contextmanager
def driver_of_step(
    context: dg.AssetExecutionContext, *, is_needed: bool = False
) -> Iterator[WaitingDriver | None]:
    """Yield the Spark driver that an earlier step of this Dagster run has left waiting.

    It waits on for the next step if the body succeeds and ``is_needed``; else it is ended.

    Args:
        context: The step.
        is_needed: Whether a later step of this Dagster run may need one.

    Yields:
        None if no driver waits; the step then starts its own.
    """
    driver = _WAITING.pop(context.run.run_id, None)
    with _kept(context, driver, is_needed=is_needed):
        yield driver


def _waits_for_pool(instance: dg.DagsterInstance) -> bool:
    """Return whether a step that starts Spark may have to wait for a slot of its pool.

    A driver that waits meanwhile would take the memory that the limit is to save. With
    ``granularity: run`` it is the Dagster run that waits.
    """
    pools = instance.get_concurrency_config().pool_config
    if pools.pool_granularity is not None and pools.pool_granularity.value == "run":
        return False
    limits = instance.event_log_storage.get_pool_limits()
    return pools.default_pool_limit is not None or any(each.name == POOL for each in limits)


@contextmanager
def _kept(
    context: dg.AssetExecutionContext, driver: WaitingDriver | None, *, is_needed: bool
) -> Iterator[WaitingDriver | None]:
    is_done = False
    try:
        yield driver
        is_done = True
    finally:
        if driver is not None and is_done and is_needed:
            _WAITING[context.run.run_id] = driver
        elif driver is not None:
            driver.end()
