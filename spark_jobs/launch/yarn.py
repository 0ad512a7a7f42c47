"""Drivers on YARN, in cluster mode, by the ``yarn`` command of Hadoop.

A launch is one application. It carries the launch's tag, so it is found even if ``spark-submit``
was killed before it told the application's id.
https://hadoop.apache.org/docs/r3.5.0/hadoop-yarn/hadoop-yarn-site/YarnCommands.html
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from sources.errors import RunError
from spark_jobs.launch.base import Launch, Order, Status, start
from spark_jobs.launch.cluster_cli import Answer, ask

_ID = re.compile(r"application_\d+_\d+")
# The line before it, `Submitting application …`, tells an id that YARN may never get.
_SUBMITTED = re.compile(r"Submitted application (application_\d+_\d+)")
_UNKNOWN_TO_YARN = "doesn't exist in RM"
_WAITING = {"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED"}
_ENDED = {"FINISHED", "FAILED", "KILLED"}
# Words of Hadoop's ContainersMonitorImpl, and ContainerExitStatus.KILLED_EXCEEDED_VMEM and _PMEM.
_LONGEST = 1000
_MEMORY = re.compile(r"beyond \w+ memory limits|beyond the '\w+' memory limit|exitCode: -10[34]\b")


class YarnLauncher:
    """Launches on YARN.

    Args:
        submit_log: What ``spark-submit`` of the launch printed.
    """

    def __init__(self, submit_log: Path) -> None:
        self._submit_log = submit_log

    def launch(self, order: Order) -> subprocess.Popen[bytes]:
        """Start ``spark-submit``, which hands the driver to YARN and ends."""
        return start(order)

    def status(self, launch: Launch) -> Status:
        """What the resource manager says."""
        try:
            if (application := self._find(launch)) is None:
                return Status("ended", reason="and YARN knows no application of it")
            answer = ask(["yarn", "application", "-status", application])
        except RunError as error:
            return Status("unknown", reason=str(error))
        return read_status(application, answer)

    def stop(self, launch: Launch) -> None:
        """Kill the application; a micro-batch that is cut off is made again by the next run."""
        if (application := self._find(launch)) is None:
            return
        answer = ask(["yarn", "application", "-kill", application])
        if answer.status != 0 and _UNKNOWN_TO_YARN not in answer.output:
            message = f"YARN did not end {application}: {answer.last_words}"
            raise RunError(message, "Try again once the resource manager answers.")

    def logs(self, launch: Launch, lines: int) -> str:
        """The end of what the driver's container printed; YARN may hold it back for a while."""
        try:
            if (application := self._find(launch)) is None:
                return ""
            files = ["-am", "1", "-log_files", "stdout,stderr", "-size", "-8192"]
            answer = ask(["yarn", "logs", "-applicationId", application, *files])
        except RunError:
            return ""
        return "\n".join(answer.output.splitlines()[-lines:]) if answer.status == 0 else ""

    def _find(self, launch: Launch) -> str | None:
        """Id of the launch's application: as ``spark-submit`` told it, else by the tag.

        Raises:
            RunError: The resource manager does not answer.
        """
        if self._submit_log.exists():
            told = _SUBMITTED.search(self._submit_log.read_text(errors="replace"))
            if told is not None:
                return told[1]
        command = ["yarn", "application", "-list", "-appTags", launch.application]
        answer = ask([*command, "-appStates", "ALL"])
        if answer.status != 0:
            message = f"YARN does not answer: {answer.last_words}"
            raise RunError(message, "Look whether the resource manager can be reached.")
        found = [_ID.match(line) for line in answer.output.splitlines()]
        return next((each[0] for each in found if each is not None), None)


def read_status(application: str, answer: Answer) -> Status:
    """What ``yarn application -status`` says of an application."""
    if _UNKNOWN_TO_YARN in answer.output:
        return Status("ended", reason=f"and YARN does not know {application} any more")
    state, final = _field("State", answer.output), _field("Final-State", answer.output)
    if answer.status != 0 or state is None:
        return Status("unknown", reason=f"YARN does not answer: {answer.last_words}")
    if state in _WAITING:
        return Status("waiting")
    if state not in _ENDED:
        return Status("running")
    why = _diagnostics(answer.output)
    for_memory = "killed for its memory; give `spark.driver.memoryOverhead` more: "
    text = f"as {final} on YARN ({application})"
    if why:
        text += f": {for_memory if _MEMORY.search(why) else ''}{why}"
    return Status("ended", is_good=final == "SUCCEEDED", reason=text)


def _field(name: str, report: str) -> str | None:
    # Only the first one: what follows in the diagnostics is anybody's text.
    found = re.search(rf"^\t{name} : (.*)$", report, re.MULTILINE)
    return None if found is None else found[1].strip()


def _diagnostics(report: str) -> str:
    """Why it ended, in one line: without stack traces, and without the processes' command lines."""
    found = re.search(r"^\tDiagnostics : (.*?)^\tUnmanaged Application : ", report, re.M | re.S)
    lines = [] if found is None else [line.strip() for line in found[1].splitlines()]
    told = [line for line in lines if line and not line.startswith(("at ", "|- ", "Dump of "))]
    return " ".join(told)[:_LONGEST]


def conf(tag: str) -> dict[str, str]:
    """Spark's properties that make an application one of ours."""
    return {
        "spark.yarn.tags": tag,
        "spark.yarn.submit.waitAppCompletion": "false",
        # Who starts a run again, when and how often is decided in one place, and not here.
        "spark.yarn.maxAppAttempts": "1",
    }
