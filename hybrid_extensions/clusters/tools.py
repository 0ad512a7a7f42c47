"""Commands `yarn` and `kubectl` run to ask a cluster: 30 s at most, missing tool, last words."""

from __future__ import annotations

import shutil
import subprocess
from typing import NamedTuple

from sources.errors import InputError, UnavailableError

# `yarn` starts a JVM for each question, and retries for minutes if the cluster does not answer.
TIMEOUT_S = 30.0


class Answer(NamedTuple):
    """Result of a command that asked a cluster, also if the command failed.

    Attributes:
        status: Exit status of the command; 0 if it succeeded.
        output: What it printed to stdout.
        errors: What it printed to stderr.
    """

    status: int
    output: str
    errors: str

    @property
    def last_words(self) -> str:
        """Last non-blank line, for messages: of stderr, or else of stdout.

        ``exit status N`` if the command printed nothing.
        """
        lines = [line.strip() for line in f"{self.output}\n{self.errors}".splitlines()]
        return next((line for line in reversed(lines) if line), f"exit status {self.status}")


def require_tool(name: str) -> None:
    """Refuse to launch a driver on a cluster whose command line tool is not installed.

    Without it, nobody could ask whether the driver runs, or end it.

    Args:
        name: The program, ``yarn`` or ``kubectl``.

    Raises:
        InputError: It is not on ``PATH``.
    """
    if shutil.which(name) is None:
        raise _missing(name)


def ask(command: list[str], seconds: float = TIMEOUT_S) -> Answer:
    """Run a command that queries a cluster, and wait for its end.

    Args:
        command: The program, ``yarn`` or ``kubectl``, and its arguments.
        seconds: Longest time that it may take; then it is ended.

    Returns:
        What it printed, and its exit status; an exit status other than 0 raises nothing.

    Raises:
        InputError: The program is not installed.
        UnavailableError: The command has not ended in time.
    """
    try:
        run = subprocess.run(
            command,
            # A tool without credentials prompts for them.
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise _missing(command[0]) from None
    except subprocess.TimeoutExpired:
        message = (
            f"The cluster did not answer within {seconds:.0f} s: `{' '.join(command)}` was still "
            "running then and was ended. A driver on the cluster may still be running and writing."
        )
        hint = (
            "Check whether the cluster can be reached, by this command on this machine, then "
            "repeat what you did."
        )
        raise UnavailableError(message, hint, value=" ".join(command)) from None
    return Answer(run.returncode, run.stdout, run.stderr)


def _missing(name: str) -> InputError:
    message = (
        f"There is no command `{name}` on the PATH. It is needed to ask whether a driver on the "
        "cluster runs, and to end it."
    )
    hint = f"Install `{name}` on this machine, or add its folder to the PATH."
    return InputError(message, hint, value=name)
