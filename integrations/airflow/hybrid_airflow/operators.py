"""Operators for a DAG that runs a pipeline: one for a step of its chain, one for its live run."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from hybrid_airflow.command import Answer, arguments
from hybrid_airflow.triggers import LiveRunTrigger


class HybridStepOperator(BaseOperator):
    """Operator that runs one step of a pipeline's chain, with ``hybrid step``.

    A step that is complete does nothing when it is run again, so the task may be retried or cleared
    at any time. If the task is cancelled, a Spark run that it waits for is ended. If its worker is
    killed, the Spark run continues, and the next attempt finds it.

    The result of the task is the step's document.

    Args:
        step: Name of the step, such as ``plan``; also the task's id, if none is given.
        pipeline: The pipeline's file, as the worker sees it.
        command: ``hybrid``, its path, or a command line that ends in it.
    """

    template_fields: Sequence[str] = ("pipeline", "command")

    def __init__(self, *, step: str, pipeline: str, command: str = "hybrid", **rest: Any) -> None:
        super().__init__(**{"task_id": step, **rest})
        self.step = step
        self.pipeline = pipeline
        self.command = command
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the step and return its document.

        Raises:
            AirflowException: The step failed, and another attempt may succeed.
            AirflowFailException: The step failed, and waiting doesn't help: no retries.
        """
        line = arguments(self.command, "step", self.pipeline, self.step)
        self.log.info("Running %s", line)
        with tempfile.TemporaryFile("w+") as answered:
            # In a session of its own, as Airflow kills the task's group 5 s after SIGTERM.
            self._process = subprocess.Popen(
                line, stdout=answered, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
            assert self._process.stderr is not None
            for printed in self._process.stderr:
                self.log.info(printed.rstrip())
            status = self._process.wait()
            answered.seek(0)
            answer = Answer(status, answered.read())
        failure = answer.failure
        if failure is not None:
            raise (AirflowException if failure.transient else AirflowFailException)(failure.text)
        assert answer.document is not None
        return answer.document

    def on_kill(self) -> None:
        """Interrupt the step, which ends a Spark run that it waits for; Airflow calls this."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)


class HybridLiveSensor(BaseOperator):
    """Sensor that succeeds once the live run was watched for a time, and fails if it is not well.

    It waits in the triggerer and needs no worker. While people have stopped or paused the live run,
    it waits on: the end of the DAG run would let the next one start the live run again.

    Args:
        pipeline: The pipeline's file, as the triggerer sees it.
        command: ``hybrid``, its path, or a command line that ends in it.
        watch_for: How long to watch.
        interval: Time between two looks.
    """

    template_fields: Sequence[str] = ("pipeline", "command")

    def __init__(
        self,
        *,
        pipeline: str,
        command: str = "hybrid",
        watch_for: timedelta = timedelta(hours=1),
        interval: timedelta = timedelta(seconds=30),
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.pipeline = pipeline
        self.command = command
        self.watch_for = watch_for
        self.interval = interval

    def execute(self, context: Context) -> None:
        """Hand the task over to the triggerer."""
        trigger = LiveRunTrigger(
            line=arguments(self.command, "status", self.pipeline),
            until_s=time.time() + self.watch_for.total_seconds(),
            interval_s=self.interval.total_seconds(),
        )
        self.defer(trigger=trigger, method_name="finish")

    def finish(self, context: Context, event: str | None) -> None:
        """End the task with what the triggerer saw.

        Args:
            context: Of the task.
            event: The trigger's event: why the pipeline is not healthy; None if it is.

        Raises:
            AirflowFailException: The pipeline is not healthy. Retries of this task would not start
                the live run again; the next run of the DAG does.
        """
        if event is not None:
            raise AirflowFailException(event)
