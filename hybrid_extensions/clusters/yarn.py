"""Drivers on YARN by the `yarn` command: found by tag, what a state means, kill, logs, memory.

A launch is one application. It carries the launch's tag, so it is found even if ``spark-submit``
was killed before it printed the application's id.
https://hadoop.apache.org/docs/r3.5.0/hadoop-yarn/hadoop-yarn-site/YarnCommands.html
"""

from __future__ import annotations

import re
from pathlib import Path

from hybrid_extensions.clusters.tools import Answer, ask
from sources.errors import HybridError, RunError, UnavailableError
from spark_jobs.launch.launch_record import Launch
from spark_jobs.launch.places.base import DriverStatus

_ID = re.compile(r"application_\d+_\d+")
# The line before it, `Submitting application …`, has an id that YARN may never get.
_SUBMITTED = re.compile(r"Submitted application (application_\d+_\d+)")
_UNKNOWN_TO_YARN = "doesn't exist in RM"
_WAITING = {"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED"}
_ENDED = {"FINISHED", "FAILED", "KILLED"}
_LONGEST = 1000
# Texts of Hadoop's ContainersMonitorImpl, and ContainerExitStatus.KILLED_EXCEEDED_VMEM and _PMEM.
_MEMORY = re.compile(r"beyond \w+ memory limits|beyond the '\w+' memory limit|exitCode: -10[34]\b")


class YarnLauncher:
    """Launcher of drivers on YARN, by Hadoop's ``yarn`` command.

    Args:
        submit_log: Output of the launch's ``spark-submit``; it has the application's id.
    """

    def __init__(self, submit_log: Path) -> None:
        self._submit_log = submit_log

    def status(self, launch: Launch) -> DriverStatus:
        """Return the state of the launch's application, as the resource manager reports it.

        Raises nothing.

        Returns:
            ``unknown`` if the manager does not answer or ``yarn`` is not installed; ``ended`` if it
            knows no such application.
        """
        try:
            if (application := self._find(launch)) is None:
                return DriverStatus("ended", reason="and YARN knows no application of it")
            answer = ask(["yarn", "application", "-status", application])
        except HybridError as error:
            return DriverStatus("unknown", reason=str(error).rstrip("."))
        return read_status(application, answer)

    def stop(self, launch: Launch) -> None:
        """Kill the application; the next run repeats a micro-batch that was not committed.

        No error if YARN knows no application of the launch. Waits up to 30 s for each command.

        Raises:
            RunError: ``yarn application -kill`` failed: the application may still be running.
            UnavailableError: The resource manager does not answer.
            InputError: ``yarn`` is not installed.
        """
        if (application := self._find(launch)) is None:
            return
        answer = ask(["yarn", "application", "-kill", application])
        if answer.status != 0 and _UNKNOWN_TO_YARN not in answer.output:
            message = (
                f"YARN did not end {application}, the driver of `{launch.source}`; `yarn "
                f"application -kill` reports: {answer.last_words.rstrip('.')}. The application may "
                "still be running and writing to the table."
            )
            hint = (
                "Run `hybrid stop P` again once the resource manager answers, or run `yarn "
                f"application -kill {application}`. Don't start another run before the application "
                "has ended."
            )
            raise RunError(message, hint, source=launch.source, value=application)

    def logs(self, launch: Launch, lines: int) -> str:
        """Return the last lines that the driver's container printed, of its last 8 KiB.

        Returns:
            At most so many lines; empty if YARN does not have them (yet), or does not answer.
        """
        try:
            if (application := self._find(launch)) is None:
                return ""
            files = ["-am", "1", "-log_files", "stdout,stderr", "-size", "-8192"]
            answer = ask(["yarn", "logs", "-applicationId", application, *files])
        except HybridError:
            return ""
        return "\n".join(answer.output.splitlines()[-lines:]) if answer.status == 0 else ""

    def _find(self, launch: Launch) -> str | None:
        """Return the id of the launch's application: ``spark-submit`` printed it, or by its tag."""
        if self._submit_log.exists():
            printed = _SUBMITTED.search(self._submit_log.read_text(errors="replace"))
            if printed is not None:
                return printed[1]
        command = ["yarn", "application", "-list", "-appTags", launch.application]
        answer = ask([*command, "-appStates", "ALL"])
        if answer.status != 0:
            message = (
                f"YARN does not say whether a driver of `{launch.source}` runs: `yarn application "
                f"-list` failed and reports: {answer.last_words.rstrip('.')}."
            )
            hint = (
                "Check whether the resource manager can be reached (`yarn application -list` on "
                "this machine), and correct what it reports; then repeat what you did."
            )
            raise UnavailableError(message, hint, source=launch.source)
        found = [_ID.match(line) for line in answer.output.splitlines()]
        return next((each[0] for each in found if each is not None), None)


def read_status(application: str, answer: Answer) -> DriverStatus:
    """Return the state of a driver from the answer of ``yarn application -status``.

    Args:
        application: Id of the application, for texts.
        answer: Answer of the command.

    Returns:
        The state; ``unknown`` if the command failed or reports no state; ``ended`` if YARN does not
        know the application any more.
    """
    if _UNKNOWN_TO_YARN in answer.output:
        return DriverStatus("ended", reason=f"and YARN does not know {application} any more")
    state, final = _field("State", answer.output), _field("Final-State", answer.output)
    if answer.status != 0 or state is None:
        return DriverStatus("unknown", reason=f"YARN does not answer: {answer.last_words}")
    if state in _WAITING:
        return DriverStatus("waiting")
    if state not in _ENDED:
        return DriverStatus("running")
    why = _diagnostics(answer.output)
    for_memory = "out of memory; raise `spark.driver.memoryOverhead`: "
    text = f"as {final} on YARN ({application})"
    if why:
        text += f": {for_memory if _MEMORY.search(why) else ''}{why}"
    return DriverStatus("ended", is_good=final == "SUCCEEDED", reason=text)


def _field(name: str, report: str) -> str | None:
    # Only the first one: the diagnostics that follow may hold any text.
    found = re.search(rf"^\t{name} : (.*)$", report, re.MULTILINE)
    return None if found is None else found[1].strip()


def _diagnostics(report: str) -> str:
    """Return why it ended in one line, without stack traces and command lines of processes."""
    found = re.search(r"^\tDiagnostics : (.*?)^\tUnmanaged Application : ", report, re.M | re.S)
    lines = [] if found is None else [line.strip() for line in found[1].splitlines()]
    shown = [line for line in lines if line and not line.startswith(("at ", "|- ", "Dump of "))]
    return " ".join(shown)[:_LONGEST]


def conf(tag: str) -> dict[str, str]:
    """Return the Spark properties that tag the application, so that it is found again.

    ``spark-submit`` does not wait for the driver's end, and YARN does not start it a second time:
    restarts are decided by the supervision alone.

    Args:
        tag: The launch's name on the cluster.
    """
    return {
        "spark.yarn.tags": tag,
        "spark.yarn.submit.waitAppCompletion": "false",
        # Restarts are decided by the supervision alone.
        "spark.yarn.maxAppAttempts": "1",
    }
