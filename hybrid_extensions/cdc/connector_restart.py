"""When the supervision restarts a failed connector: declared limit and waits, all tables' count.

A connector may have many tables, each with a pipeline. They count together: what one of them does
is kept where all of them look, in the folder that their states are in.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence

from hybrid_extensions.cdc.databases.kafka_connect import restart_failed
from hybrid_extensions.cdc.slot_watch import SlotLook
from sources.common.durations import span_ms
from sources.common.state_document import Record
from sources.config.loader import LoadedPipeline
from sources.config.supervision import Restarts
from sources.state.action_log import recorded
from sources.state.generation import Generation

BY = "supervision"
"""Who starts a connector again, in the log of actions."""


class ConnectorRestarts(Record):
    """Restarts of a connector, in a state document that its pipelines share.

    Attributes:
        connector: URL of the connector.
        restarted_ms: Times of the restarts within the window that the last one counted, in ms
            since 1970.
    """

    connector: str
    restarted_ms: list[int]


def restart_if_due(
    loaded: LoadedPipeline, generation: Generation, look: SlotLook, now_ms: int
) -> None:
    """Restart a pipeline's failed connector in Kafka Connect, if that is declared and due.

    Called with each look of the supervision. The restart is recorded before it is asked for, and is
    in the log of actions. What does not run for another reason, such as a pause, is left as it is.
    A Connect worker that does not answer raises nothing: it counts as a restart.

    Args:
        loaded: The pipeline.
        generation: State of the generation.
        look: What was seen of the connector.
        now_ms: Time of the look, in ms since 1970.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    for each in look.others:
        restart_if_due(loaded, generation, each, now_ms)
    seen, since_ms = look.seen, look.watch.idle_since_ms
    if not (seen.failure and seen.is_restarted):
        return
    restarts = loaded.pipeline.supervision.restarts
    shared, name = loaded.place(loaded.pipeline.state), _name(seen.connector)
    kept = shared.read(name, ConnectorRestarts)
    before_ms = [] if kept is None else kept.restarted_ms
    recent = [at for at in before_ms if at > now_ms - span_ms(restarts.within)]
    if not is_due(since_ms, recent, restarts, now_ms):
        return
    # Before it is done, so that the other tables' looks find it.
    shared.replace(
        name, ConnectorRestarts(connector=seen.connector, restarted_ms=[*recent, now_ms])
    )
    before = {"connector": seen.connector, "failure": seen.failure}
    with (
        contextlib.suppress(OSError),
        recorded(
            loaded.state, "restart connector", BY, generation.info.generation, before
        ) as after,
    ):
        restart_failed(seen.connector)
        after["connector"] = "was asked to start"


def is_due(since_ms: int | None, recent_ms: Sequence[int], restarts: Restarts, now_ms: int) -> bool:
    """Return whether a restart of a failed connector is due. A pure function.

    False if it runs, or was restarted as often as the limit says. The wait counts from the last
    restart, or from when it stopped.

    Args:
        since_ms: Since when the connector does not run, in ms since 1970; None if it runs.
        recent_ms: When it was restarted within the window of ``restarts``, in ms since 1970,
            ascending.
        restarts: The declared limit, and the waits before each restart.
        now_ms: The present, in ms since 1970.
    """
    if since_ms is None or len(recent_ms) >= restarts.limit:
        return False
    return now_ms - max([since_ms, *recent_ms]) >= span_ms(restarts.wait(len(recent_ms)))


def _name(url: str) -> str:
    return f"connector-{hashlib.sha256(url.encode()).hexdigest()[:16]}.json"
