"""The command ``hybrid`` of another environment: how it is called, and what its answers mean."""

from __future__ import annotations

import json
import shlex
from typing import Any, NamedTuple


class Failure(NamedTuple):
    """Why a command failed.

    Attributes:
        text: What is wrong, and what to do now.
        transient: Whether the same command may succeed later without any change.
    """

    text: str
    transient: bool


class Answer(NamedTuple):
    """What a command printed to stdout, and how it ended.

    Attributes:
        status: Its exit status; negative if a signal ended it.
        printed: Its output: one JSON document, or nothing if it was ended before it answered.
    """

    status: int
    printed: str

    @property
    def document(self) -> dict[str, Any] | None:
        """The document; None if there is none, computed at each access."""
        try:
            found = json.loads(self.printed)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    @property
    def failure(self) -> Failure | None:
        """Why the command failed, computed at each access; None if it answered.

        A bad answer, such as the status of a pipeline that is not healthy, is no failure.
        """
        document = self.document
        if document is None:
            text = f"The command ended with status {self.status} and without an answer."
            hint = "Its output above says why; a signal ends it with a negative status."
            return Failure(f"{text} {hint}", transient=True)
        if "message" not in document:
            return None
        text = " ".join(part for part in (document["message"], document.get("hint")) if part)
        return Failure(text, transient=bool(document.get("transient")))


def arguments(command: str, *rest: str) -> list[str]:
    """Return the program and the arguments of a command that answers with a document.

    Args:
        command: ``hybrid``, its path, or a command line that ends in it, in the shell's quoting.
        rest: The arguments, such as ``status`` and the pipeline's file.
    """
    return [*shlex.split(command), *rest, "--json"]


def find_problem(status: dict[str, Any]) -> str | None:
    """Return why a pipeline is not healthy, in sentences; None if it is.

    Args:
        status: The document of ``hybrid status``.
    """
    if status["healthy"]:
        return None
    if status["served_by"] and (problem := find_problem(status["served_by"])):
        return problem
    states = ", ".join(f"`{each['source']}` is {each['state']}" for each in status["sources"])
    reasons = [f"Pipeline `{status['pipeline']}` is not healthy: {states}."]
    if status["live"]:
        reasons.append(f"The live run is {status['live']['health']}. {status['live']['reason']}")
    if status["refused"]:
        reasons.append(f"The next launch is refused. {status['refused']['message']}")
    return " ".join(reasons)


def is_off(status: dict[str, Any]) -> bool:
    """Return whether people stopped or paused the live run, so that nothing may start it again.

    Args:
        status: The document of ``hybrid status``.
    """
    return status["live"] is not None and status["live"]["health"] in ("stopped", "paused")
