"""Webhook for alerts: a JSON document, posted to a secret URL of another system."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from sources.common.positions import iso
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport

TIMEOUT_S = 5.0


class _StayHere(HTTPRedirectHandler):
    """Handler that follows no redirect: a redirected POST drops the document and looks accepted."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


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
    url, name = loaded.pipeline.supervision.webhook_url, loaded.pipeline.name
    if url is None:
        return None
    return _post(
        url,
        {
            "text": f"{name}: {told.text}",
            "pipeline": name,
            "source": loaded.pipeline.sources[-1].name,
            "health": told.health,
            "before": told.before,
            "reason": told.reason,
            "failure": None if told.failure is None else told.failure.model_dump(),
            "at": iso(told.at_ms),
            "numbers": dict(told.numbers),
        },
    )


def _post(url: str, document: Mapping[str, object]) -> str | None:
    """Post an alert as JSON, waiting at most 5 s; return why it failed, or None. Raises nothing.

    Args:
        url: Where to post it; never shown, since it is a secret.
        document: The alert, a JSON object.

    Returns:
        Why the document was not accepted, as a phrase without the URL; None if the status of the
        answer was a success. A redirect counts as not accepted.
    """
    body = json.dumps(document).encode()
    try:
        request = Request(url, body, {"Content-Type": "application/json"}, method="POST")
        with build_opener(_StayHere).open(request, timeout=TIMEOUT_S):
            return None
    except HTTPError as error:
        error.close()
        return f"it answers with status {error.code}"
    except URLError as error:
        # Its text may name the host.
        return f"it can't be reached ({type(error.reason).__name__})"
    except Exception as error:
        return f"posting fails ({type(error).__name__})"
