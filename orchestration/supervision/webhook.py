"""Alerts to another system: a JSON document, which an extension posts to a secret URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport
from sources.extensions import contributions


@dataclass(frozen=True)
class Alert:
    """Alert about a pipeline, as a webhook gets it.

    Attributes:
        text: One sentence or two, as chat services show them, without the pipeline's name.
        health: Its health now, as one word; ``unknown`` if its state can't be read.
        before: The health that the webhook got before; None if it got none.
        reason: Why, as sentences.
        at_ms: When that was observed, in ms since 1970.
        failure: The error that the driver reported; None without one.
        numbers: Figures of the live run, by name.
    """

    text: str
    health: str
    before: str | None
    reason: str
    at_ms: int
    failure: ErrorReport | None = None
    numbers: Mapping[str, int | float] = field(default_factory=dict)


def alert(loaded: LoadedPipeline, told: Alert) -> str | None:
    """Post an alert to the pipeline's webhook, if it declares one. Raises nothing.

    Returns:
        Why it was not accepted, as a phrase without the URL; None if it was, or if no webhook is
        declared.
    """
    if loaded.pipeline.supervision.webhook_url is None:
        return None
    if (post := next(contributions("alerts"), None)) is None:
        return "no installed extension posts alerts"
    problem: str | None = post(loaded, told)
    return problem
