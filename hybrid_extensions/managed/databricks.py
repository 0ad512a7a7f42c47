"""Client of Databricks: one-time job runs, which it never repeats; their states, by its SDK.

https://docs.databricks.com/api/workspace/jobs/submit
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hybrid_extensions.managed.client import no_answer
from sources.common.optional import needs_extra
from sources.errors import InputError, RunError, UnavailableError
from spark_jobs.launch.places.base import DriverStatus

with needs_extra("databricks", "`master: databricks://…`"):
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.config import Config
    from databricks.sdk.errors import BadRequest, NotFound
    from databricks.sdk.errors.base import DatabricksError
    from databricks.sdk.service.compute import ClusterSpec
    from databricks.sdk.service.jobs import Run, RunOutput, RunType, SubmitTask

# Of RunLifeCycleState.
_WAITING = {"BLOCKED", "PENDING", "QUEUED", "WAITING_FOR_RETRY"}
_ENDED = {"TERMINATED", "SKIPPED", "INTERNAL_ERROR"}
_LONGEST = 1000
_RETRY_S = 30
_HTTP_S = 10
_TASK = "driver"


class Databricks:
    """Client of a workspace of Databricks, where a driver is a one-time job run.

    Args:
        host: Address of the workspace, ``https://…``. The login is what the SDK finds in the
            environment (``DATABRICKS_TOKEN``, a profile, …).

    Raises:
        UnavailableError: The SDK finds no login.
    """

    name = "Databricks"

    def __init__(self, host: str) -> None:
        with _answers():
            config = Config(host=host, retry_timeout_seconds=_RETRY_S, http_timeout_seconds=_HTTP_S)
            self._jobs = WorkspaceClient(config=config).jobs

    def submit(self, request: Mapping[str, Any]) -> str:
        """Submit a run, unless there is one with this ``idempotency_token``; return its id.

        Args:
            request: Arguments of ``jobs.submit``, as :func:`request` returns them.

        Raises:
            RunError: The service refused the request; no run was started.
            UnavailableError: The service does not answer.
        """
        tasks = [SubmitTask.from_dict(each) for each in request["tasks"]]
        try:
            with _answers(BadRequest, NotFound):
                return str(self._jobs.submit(**{**request, "tasks": tasks}).run_id)
        except (BadRequest, NotFound) as error:
            message = f"Databricks refused the run, and none was started: {error}"
            hint = "Correct `spark.service` or the service's permissions, then try again."
            raise RunError(message, hint) from None

    def find(self, name: str) -> str | None:
        """Return the id of the submitted run of this name; None if the workspace has none.

        Raises:
            UnavailableError: The service does not answer.
        """
        with _answers():
            for run in self._jobs.list_runs(run_type=RunType.SUBMIT_RUN, limit=25):
                if run.run_name == name:
                    return str(run.run_id)
        return None

    def status(self, run: str) -> DriverStatus:
        """Return the state of a run, by its id; ``ended`` if Databricks does not know it any more.

        Raises:
            UnavailableError: The service does not answer.
        """
        try:
            with _answers(NotFound):
                found = self._jobs.get_run(int(run))
        except NotFound:
            return DriverStatus("ended", reason=f"and Databricks does not know run {run} any more")
        status = read_status(found)
        if status.is_good is False:
            why = self._error(found)
            status = status._replace(reason=f"{status.reason}{why and f': {why}'}"[:_LONGEST])
        return status

    def cancel(self, run: str) -> None:
        """Ask the service to cancel a run; the driver gets no time to end its query.

        Does not wait for the end.

        Raises:
            UnavailableError: The service does not answer.
        """
        with _answers():
            self._jobs.cancel_run(int(run))

    def logs(self, run: str, lines: int) -> str:
        """Return the last lines that a run printed; empty until it has ended.

        Args:
            run: Id of the run.
            lines: Largest number of lines.

        Raises:
            UnavailableError: The service does not answer.
        """
        try:
            with _answers(NotFound):
                output = self._output(self._jobs.get_run(int(run)))
        except NotFound:
            return ""
        text = "" if output is None else "\n".join(filter(None, (output.logs, output.error_trace)))
        return "\n".join(text.splitlines()[-lines:])

    def _error(self, run: Run) -> str:
        """Return the error that a run ended with; empty if it has none, or it can't be fetched.

        Of a run that was cancelled before its task began, the service refuses the question.
        """
        try:
            with _answers():
                output = self._output(run)
        except UnavailableError:
            return ""
        return "" if output is None else (output.error or "").strip()

    def _output(self, run: Run) -> RunOutput | None:
        task = run.tasks[0].run_id if run.tasks else None
        return None if task is None else self._jobs.get_run_output(task)


def read_status(run: Run) -> DriverStatus:
    """Return the state of a driver from the answer to ``jobs/runs/get``. A pure function.

    A state that is not known here counts as running.

    Returns:
        ``unknown`` if the answer has no state.
    """
    state = run.state
    if state is None or state.life_cycle_state is None:
        return DriverStatus("unknown", reason=f"Databricks reports no state of run {run.run_id}")
    why = (state.state_message or state.queue_reason or "").strip()[:_LONGEST]
    if (phase := state.life_cycle_state.value) in _WAITING:
        return DriverStatus("waiting", reason=why)
    if phase not in _ENDED:
        return DriverStatus("running")
    result = state.result_state.value if state.result_state is not None else phase
    text = f"as {result} on Databricks (run {run.run_id}){why and f': {why}'}"
    return DriverStatus("ended", is_good=result == "SUCCESS", reason=text)


def request(
    name: str,
    job: list[str],
    conf: dict[str, str],
    libraries: list[dict[str, Any]],
    service: dict[str, Any],
) -> dict[str, Any]:
    """Return the arguments of ``jobs.submit`` that start a driver on a cluster of its own.

    Databricks neither repeats it nor ends it: that is left to the supervision.

    Args:
        name: The launch's name on the service.
        job: The job's file and its arguments.
        conf: Spark properties.
        libraries: The JVM parts, as libraries of the task.
        service: The fields of the task, as the pipeline declares them.

    Raises:
        InputError: ``spark.service.new_cluster`` has a field that the SDK does not know.
    """
    cluster = service["new_cluster"]
    known = {field.name for field in dataclasses.fields(ClusterSpec)}
    for field in cluster.keys() - known:
        message = (
            f"`spark.service.new_cluster` has the field `{field}`, which the installed "
            "`databricks-sdk` does not know."
        )
        hint = (
            "Correct it (https://docs.databricks.com/api/workspace/jobs/submit lists all fields), "
            "or install a newer `databricks-sdk`."
        )
        raise InputError(message, hint, field="spark.service", value=field)
    file, *arguments = job
    return {
        "run_name": name,
        "idempotency_token": name,
        "timeout_seconds": 0,
        "tasks": [
            {
                **service,
                "task_key": _TASK,
                "max_retries": 0,
                "spark_python_task": {"python_file": file, "parameters": arguments},
                "libraries": [*service.get("libraries", []), *libraries],
                "new_cluster": {**cluster, "spark_conf": {**conf, **cluster.get("spark_conf", {})}},
            }
        ],
    }


@contextmanager
def _answers(*refusals: type[Exception]) -> Iterator[None]:
    """Turn errors of the SDK into one that says that the service does not answer."""
    try:
        yield
    except refusals:
        raise
    # The SDK raises ValueError without a login, TimeoutError when it gives up, and what `requests`
    # raises, which is an OSError.
    except (DatabricksError, OSError, ValueError) as error:
        raise no_answer(Databricks.name, str(error)) from None
