"""Client of Kafka Connect, 5 s: a connector's state, configuration, restart; no password shown.

https://kafka.apache.org/documentation/#connect_rest
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, NamedTuple

from sources.errors import InputError, UnavailableError

_TIMEOUT_S = 5
_CAUSE = "Caused by: "
_MOST_CHARACTERS = 300
# A trace may have a driver's URL.
_SECRETS = re.compile(
    r"(password|passwd|pwd|secret)\s*[=:]\s*(?:'[^']*'|\"[^\"]*\"|[^\s,;&)]+)|(?<=://)[^/\s'\"]+@",
    re.I,
)


class ConnectorState(NamedTuple):
    """State of a connector and its tasks.

    Attributes:
        is_running: Whether the connector and all of its tasks run.
        failure: Why the connector or a task failed, in one line; empty if none did. A failure lasts
            until somebody restarts what failed.
    """

    is_running: bool
    failure: str = ""


def read_state(url: str) -> ConnectorState:
    """Ask Kafka Connect whether a connector runs.

    A connector without tasks does not run.

    Args:
        url: URL of the connector, ``http://host:8083/connectors/<name>``.

    Raises:
        OSError, ValueError: Kafka Connect does not answer, or does not know the connector.
        KeyError, TypeError: Its answer is not that of Kafka Connect.
    """
    status = ask_connect(url, "/status")
    parts: list[Mapping[str, Any]] = [status["connector"], *status["tasks"]]
    failed = [each for each in parts if each["state"] == "FAILED"]
    is_running = len(parts) > 1 and {each["state"] for each in parts} == {"RUNNING"}
    return ConnectorState(is_running, _reason(str(failed[0].get("trace", ""))) if failed else "")


def find_connector_state(url: str) -> ConnectorState | str:
    """Return the state of a connector, or in words why it is not known; raises nothing.

    Args:
        url: URL of the connector.
    """
    try:
        return read_state(url)
    except (OSError, ValueError) as error:
        return failure_in_words(error)
    except (KeyError, TypeError, AttributeError):
        return f"{url} is not answered as Kafka Connect does"


def read_config(url: str) -> dict[str, Any]:
    """Return the configuration of a connector that a pipeline declares.

    Waits up to 5 s. References to secrets are not resolved.

    Args:
        url: URL of the connector.

    Raises:
        InputError: Kafka Connect does not know the connector, or refuses the request.
        UnavailableError: Kafka Connect does not answer, or something else answers in its place.
    """
    try:
        found: dict[str, Any] = ask_connect(url, "/config")
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            message = f"Connector {url} is not known: {failure_in_words(error)}."
            way = (
                f"Start the connector: `POST {url.rpartition('/')[0]}` with its configuration, "
                "such as `hybrid init` writes it. Or correct"
            )
        else:
            message = f"The configuration of connector {url} can't be read: "
            message += f"{failure_in_words(error)}."
            way = "Look at the log of Kafka Connect for the cause, or correct"
        hint = f"{way} `snapshot.connector`: `http://<host>:<port>/connectors/<name>`."
        raise InputError(message, hint, value=url) from None
    except (OSError, ValueError) as error:
        message = f"The configuration of connector {url} can't be read: {failure_in_words(error)}."
        hint = "Start Kafka Connect, or correct `snapshot.connector`."
        raise UnavailableError(message, hint, server=url) from None
    return found


def restart_failed(url: str) -> None:
    """Restart a failed connector and its failed tasks; running tasks are left alone.

    Waits up to 5 s. What does not run for another reason, such as a pause, is left alone, too.

    Args:
        url: URL of the connector.

    Raises:
        OSError: Kafka Connect does not answer, or refuses.
    """
    request = urllib.request.Request(_restart_url(url), method="POST")
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
        pass


def restart_command(url: str) -> str:
    """Return a ``curl`` command for hints that restarts a failed connector and its failed tasks.

    The URL is put into single quotes as it is.
    """
    return f"curl -X POST '{_restart_url(url)}'"


def ask_connect(url: str, path: str) -> Any:
    """Ask Kafka Connect about a connector, and return its JSON answer, parsed.

    Waits up to 5 s.

    Args:
        url: URL of the connector.
        path: What is asked, such as ``/config``.

    Raises:
        OSError, ValueError: It does not answer, or does not know the connector.
    """
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}{path}", timeout=_TIMEOUT_S) as answer:
            return json.loads(answer.read())
    except HTTPException as error:
        text = f"what answers at {url} does not speak HTTP ({type(error).__name__})"
        raise ConnectionError(text) from None


def without_passwords(text: str) -> str:
    """Return the first 300 characters of a foreign text, with passwords removed.

    Args:
        text: A text, such as a cause of a failure or a statement.
    """
    return _SECRETS.sub(lambda found: f"{found[1] or ''}***", text)[:_MOST_CHARACTERS]


def failure_in_words(error: Exception) -> str:
    """Describe why a request to Kafka Connect failed, as a clause without a full stop.

    Args:
        error: What ``urllib`` raised, or the parser of the answer.
    """
    if isinstance(error, urllib.error.HTTPError):
        return f"Kafka Connect answers {error.code} ({error.reason})"
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return "what answers there is not Kafka Connect"
    return f"Kafka Connect does not answer: {' '.join(str(error).split())}"


def _restart_url(url: str) -> str:
    return f"{url.rstrip('/')}/restart?includeTasks=true&onlyFailed=true"


def _reason(trace: str) -> str:
    """Return the last cause of a Java stack trace in one line, without passwords."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    last = (causes or lines or ["no reason is reported"])[-1 if causes else 0]
    name, _, text = last.partition(": ")
    short = name.rpartition(".")[2]
    whole = f"{short}: {text}" if text else short
    return without_passwords(whole)
