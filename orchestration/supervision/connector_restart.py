"""Starting a connector again that failed, as the supervision does where that is declared."""

from __future__ import annotations

import contextlib

from orchestration.supervision.slot_watch import SlotLook, SlotWatch
from sources.common.positions import span_ms
from sources.config.loader import LoadedPipeline
from sources.config.supervision import Restarts
from sources.databases.kafka_connect import restart_failed
from sources.state.action_log import recorded
from sources.state.generation import Generation

BY = "supervision"
"""Who starts a connector again, in the log of actions."""


def restart_if_due(
    loaded: LoadedPipeline, generation: Generation, look: SlotLook, now_ms: int
) -> SlotLook:
    """Start the connector of a pipeline again if it failed, and that is declared and due.

    What is not running for another reason, such as a pause, is left as it is. A worker that does
    not answer is no error: it is tried again as rarely as any other.

    Args:
        loaded: The pipeline.
        generation: Its state.
        look: What was seen of the connector.
        now_ms: Time of the look, in ms since 1970.

    Returns:
        The look, with what is to be remembered of a restart.

    Raises:
        StateError: The log of actions can't be written; nothing was done.
    """
    seen, watch = look.seen, look.watch
    restarts = loaded.pipeline.supervision.restarts
    if not (seen.failure and seen.is_restarted and is_due(watch, restarts, now_ms)):
        return look
    before = {"connector": seen.connector, "failure": seen.failure}
    with (
        contextlib.suppress(OSError),
        recorded(
            loaded.state, "restart connector", BY, generation.info.generation, before
        ) as after,
    ):
        restart_failed(seen.connector)
        after["connector"] = "was asked to start"
    recent = [at for at in watch.restarted_ms if at > now_ms - span_ms(restarts.within)]
    return look._replace(watch=watch.model_copy(update={"restarted_ms": [*recent, now_ms]}))


def is_due(watch: SlotWatch, restarts: Restarts, now_ms: int) -> bool:
    """Return whether a connector that failed is to be started again now. A pure function.

    Args:
        watch: Since when it does not run, and when it was started again before.
        restarts: How often that may be.
        now_ms: Now, in ms since 1970.
    """
    recent = [at for at in watch.restarted_ms if at > now_ms - span_ms(restarts.within)]
    if watch.idle_since_ms is None or len(recent) >= restarts.limit:
        return False
    last = max([watch.idle_since_ms, *recent])
    return now_ms - last >= span_ms(restarts.wait(len(recent)))
