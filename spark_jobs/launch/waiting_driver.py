"""Driver that is started in advance and waits for a run; ended unless it is given one."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from sources.config.loader import LoadedPipeline
from sources.extensions import contributions
from sources.state.generation import Generation
from spark_jobs.launch.questions.spark_process import SparkProcess
from spark_jobs.run_state.lock import Lock


class WaitingDriver(SparkProcess, ABC):
    """Interface of a Spark driver that waits for a run; a context manager; an extension's.

    While a plan is made it answers questions, too. On leaving the context it is ended, unless it
    was given a run: then it outlives the context, and another one may be started.

    Attributes:
        launch_id: Identifier of the launch that the driver is for; empty before one was started.
    """

    launch_id: str = ""

    @abstractmethod
    def start_next(self, generation: Generation) -> None:
        """Start a driver for a generation's next launch, when the present run nears its end.

        Does nothing if one waits already; raises nothing if it can't be started.

        Args:
            generation: State folder of the generation.
        """

    @abstractmethod
    def take_lock(self, loaded: LoadedPipeline, generation: Generation) -> Lock | None:
        """Take a generation's launch lock for the waiting driver; call :meth:`run` next.

        The driver holds the lock until it ends. None, with the driver ended, if there is no driver
        that fits, or another process launches: then launch in the ordinary way.

        Args:
            loaded: The pipeline as it is launched.
            generation: State folder of the generation.

        Raises:
            InputError: Java, Spark or a jar is missing.
        """

    @abstractmethod
    def run(
        self, generation: Generation, sources: Sequence[str], log: Path, extra: Mapping[str, str]
    ) -> tuple[int, subprocess.Popen[bytes]]:
        """Give the waiting driver its run: sources to read, one after the other.

        From then on it outlives this process. If it has ended already, nothing is raised here: who
        watches the run finds that out.

        Args:
            generation: State folder of the generation, whose lock was taken for it.
            sources: Names of the sources, in order.
            log: The run's log file.
            extra: More environment variables for its job.

        Returns:
            Process id of the driver, and the process.

        Raises:
            OSError: The log can't be written.
        """


def waiting_driver(loaded: LoadedPipeline) -> WaitingDriver | None:
    """Return a driver for a pipeline, not started yet.

    None if its runs can't use one, or no installed extension starts drivers in advance.

    Raises:
        InputError: An extension can't be loaded.
    """
    for make in contributions("waiting_driver"):
        found: WaitingDriver | None = make(loaded)
        return found
    return None
