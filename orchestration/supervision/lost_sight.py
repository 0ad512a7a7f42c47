"""Alerts of a pipeline that can't be looked at: its state is unknown, which may be red as well."""

from __future__ import annotations

from orchestration.supervision.webhook import post
from sources.common.positions import iso
from sources.config.loader import LoadedPipeline

ALERT_AFTER_MS = 60_000
"""Milliseconds for which looks have to fail before anybody is told: a store may be back by then."""


def alert_unknown(loaded: LoadedPipeline, why: str, at_ms: int) -> str | None:
    """Post that a pipeline can't be looked at.

    Args:
        loaded: The pipeline, which declares a webhook.
        why: Why, as sentences.
        at_ms: The time now, in ms since 1970.

    Returns:
        Why the webhook was not reached, as a phrase; None if it was.
    """
    return _post(loaded, "unknown", None, why, at_ms)


def alert_known_again(loaded: LoadedPipeline, health: str, at_ms: int) -> str | None:
    """Post that a pipeline can be looked at again.

    Args:
        loaded: The pipeline, which declares a webhook.
        health: Health of its live run, as one word; ``none`` without one.
        at_ms: The time now, in ms since 1970.

    Returns:
        Why the webhook was not reached, as a phrase; None if it was.
    """
    return _post(loaded, health, "unknown", "The pipeline can be looked at again.", at_ms)


def _post(
    loaded: LoadedPipeline, health: str, before: str | None, reason: str, at_ms: int
) -> str | None:
    url = loaded.pipeline.supervision.webhook_url
    if url is None:
        return None
    document: dict[str, object] = {
        "text": f"{loaded.pipeline.name}: {reason}",
        "pipeline": loaded.pipeline.name,
        "source": loaded.pipeline.sources[-1].name,
        "health": health,
        "before": before,
        "reason": reason,
        "failure": None,
        "at": iso(at_ms),
        "numbers": {},
    }
    return post(url, document)
