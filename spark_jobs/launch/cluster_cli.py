"""Questions to a cluster by its own command line, as people would ask them."""

from __future__ import annotations

import shutil
import subprocess
from typing import NamedTuple

from sources.errors import InputError, RunError
from spark_jobs.launch.base import Place

# `yarn` starts a JVM for each question, and tries for minutes if nobody answers.
TIMEOUT_S = 30.0
_TOOLS = {"yarn": "yarn", "kubernetes": "kubectl"}


class Answer(NamedTuple):
    """What a command said.

    Attributes:
        status: Its exit status.
        output: What it printed.
        errors: What it printed to stderr.
    """

    status: int
    output: str
    errors: str

    @property
    def last_words(self) -> str:
        """The last line of what it complained about."""
        lines = [line.strip() for line in f"{self.output}\n{self.errors}".splitlines()]
        return next((line for line in reversed(lines) if line), f"nothing, status {self.status}")


def require_tool(place: Place) -> None:
    """Refuse to start what could not be asked about later.

    Raises:
        InputError: The cluster's command is not installed.
    """
    name = _TOOLS.get(place.kind)
    if name is not None and shutil.which(name) is None:
        message = (
            f"There is no command `{name}` on the PATH; it tells whether a driver on the cluster "
            "runs, and ends it."
        )
        raise InputError(message, "Install it on the machine that launches.")


def ask(command: list[str], seconds: float = TIMEOUT_S) -> Answer:
    """Run a command to its end.

    Raises:
        RunError: It can't be started, or does not answer in time.
    """
    try:
        run = subprocess.run(
            command,
            # A tool without a login asks for one.
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        message = f"There is no command `{command[0]}` on the PATH."
        raise RunError(message, "Install it.") from None
    except subprocess.TimeoutExpired:
        message = f"`{' '.join(command)}` did not answer within {seconds:.0f} s."
        raise RunError(message, "Look whether the cluster can be reached.") from None
    return Answer(run.returncode, run.stdout, run.stderr)
