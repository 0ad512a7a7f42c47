"""Alert by webhook: a JSON document posted to a secret URL, once, 5 s at most, no redirects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from orchestration.supervision.webhook import Alert
from sources.common.times import iso
from sources.config.loader import LoadedPipeline

TIMEOUT_S = 5.0


class _StayHere(HTTPRedirectHandler):
    """Handler that follows no redirect: a redirected POST drops the document and looks accepted."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def post_alert(loaded: LoadedPipeline, told: Alert) -> str | None:
    """Post an alert to the webhook that a pipeline declares. Raises nothing, tries once.

    Args:
        loaded: A pipeline with a webhook.
        told: The alert.

    Returns:
        Why it was not accepted, as a phrase without the URL; None if it was.
    """
    document = {
        "text": f"{loaded.pipeline.name}: {told.text}",
        "pipeline": loaded.pipeline.name,
        "source": loaded.pipeline.sources[-1].name,
        "health": told.health,
        "before": told.before,
        "reason": told.reason,
        "failure": None if told.failure is None else told.failure.model_dump(),
        "at": iso(told.at_ms),
        "numbers": dict(told.numbers),
    }
    return post(str(loaded.pipeline.supervision.webhook_url), document)


def post(url: str, document: Mapping[str, object]) -> str | None:
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
