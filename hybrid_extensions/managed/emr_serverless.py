"""Client of Amazon EMR Serverless: job runs, which it never repeats; their states, by boto3.

https://docs.aws.amazon.com/emr-serverless/latest/APIReference/Welcome.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from hybrid_extensions.managed.client import GRACE_S, no_answer
from sources.errors import RunError
from spark_jobs.launch.places.base import DriverStatus

_WAITING = {"SUBMITTED", "PENDING", "SCHEDULED", "QUEUED"}
_ENDED = {"SUCCESS", "FAILED", "CANCELLED"}
_UNKNOWN_RUN = "ResourceNotFoundException"
_LONGEST = 1000


class EmrServerless:
    """Client of an application of EMR Serverless, where a driver is a job run.

    AWS's login is what boto3 finds in the environment.

    Args:
        region: AWS region of the application.
        application: Id of the application.
    """

    name = "EMR Serverless"

    def __init__(self, region: str, application: str) -> None:
        self._application = application
        # Asked again and again: an application that does not answer must not hold up the look.
        config = Config(connect_timeout=10, read_timeout=20, retries={"total_max_attempts": 3})
        self._client = boto3.client("emr-serverless", region_name=region, config=config)

    def submit(self, request: Mapping[str, Any]) -> str:
        """Start a job run, unless there is one with this ``clientToken``; return its id.

        Args:
            request: Fields of ``StartJobRun``, as :func:`request` returns them.

        Raises:
            RunError: The service refused the request; no run was started.
            UnavailableError: The service does not answer.
        """
        try:
            with _answers(_UNKNOWN_RUN, "ConflictException", "ValidationException"):
                answer = self._client.start_job_run(applicationId=self._application, **request)
        except ClientError as error:
            message = f"EMR Serverless refused the run, and none was started: {error}"
            hint = "Correct `spark.service` or the service's permissions, then try again."
            raise RunError(message, hint, value=self._application) from None
        return str(answer["jobRunId"])

    def find(self, name: str) -> str | None:
        """Return the id of the job run of this name; None if the application has none.

        Raises:
            UnavailableError: The service does not answer.
        """
        with _answers():
            pages = self._client.get_paginator("list_job_runs")
            for page in pages.paginate(applicationId=self._application):
                for run in page["jobRuns"]:
                    if run.get("name") == name:
                        return str(run["id"])
        return None

    def status(self, run: str) -> DriverStatus:
        """Return the state of a job run, by its id; ``ended`` if the service does not know it.

        Raises:
            UnavailableError: The service does not answer.
        """
        try:
            with _answers(_UNKNOWN_RUN):
                answer = self._client.get_job_run(applicationId=self._application, jobRunId=run)
        except ClientError:
            return DriverStatus("ended", reason=f"and EMR Serverless does not know {run} any more")
        return read_status(answer["jobRun"])

    def cancel(self, run: str) -> None:
        """Ask the application to cancel a job run, with 20 s for its query to end.

        Does not wait for the end.

        Raises:
            UnavailableError: The service does not answer.
        """
        with _answers():
            self._client.cancel_job_run(
                applicationId=self._application,
                jobRunId=run,
                shutdownGracePeriodInSeconds=GRACE_S,
            )

    def logs(self, run: str, lines: int) -> str:
        """Return a line with the address of the run's dashboard, which links to its logs.

        The service has no request for the lines themselves. The address is valid for an hour. Empty
        if there is none.

        Args:
            run: Id of the job run.
            lines: Without effect.

        Raises:
            UnavailableError: The service does not answer.
        """
        del lines
        with _answers():
            answer = self._client.get_dashboard_for_job_run(
                applicationId=self._application, jobRunId=run
            )
        return f"EMR Serverless has the log of {run}: {answer['url']}" if "url" in answer else ""


def read_status(run: Mapping[str, Any]) -> DriverStatus:
    """Return the state of a driver from ``jobRun`` of the answer to ``GetJobRun``; pure.

    A state that is not known here counts as running.
    """
    state, why = run["state"], str(run.get("stateDetails") or "").strip()[:_LONGEST]
    if state in _WAITING:
        return DriverStatus("waiting", reason=why)
    if state not in _ENDED:
        return DriverStatus("running")
    text = f"as {state} on EMR Serverless ({run['jobRunId']}){why and f': {why}'}"
    return DriverStatus("ended", is_good=state == "SUCCESS", reason=text)


def request(
    name: str, job: list[str], conf: dict[str, str], service: dict[str, Any]
) -> dict[str, Any]:
    """Return the fields of ``StartJobRun`` that start a driver; nothing is sent.

    The service neither repeats a driver that fails nor ends one after its default of 12 hours: that
    is left to the supervision.

    Args:
        name: Name of the launch on the service, which is also the idempotency token.
        job: The job's file and its arguments.
        conf: Spark properties.
        service: Further fields, as the pipeline declares them.
    """
    overrides = dict(service.get("configurationOverrides", {}))
    declared = list(overrides.get("applicationConfiguration", []))
    defaults = {"classification": "spark-defaults", "properties": conf}
    overrides["applicationConfiguration"] = [*declared, defaults]
    file, *arguments = job
    return {
        "executionTimeoutMinutes": 0,
        **service,
        "name": name,
        "clientToken": name,
        "mode": "BATCH",
        "retryPolicy": {"maxAttempts": 1},
        "jobDriver": {"sparkSubmit": {"entryPoint": file, "entryPointArguments": arguments}},
        "configurationOverrides": overrides,
    }


@contextmanager
def _answers(*refusals: str) -> Iterator[None]:
    """Turn errors of the client into one that says that the service does not answer.

    Args:
        refusals: Codes of the service's errors that the caller handles.
    """
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] in refusals:
            raise
        raise no_answer(EmrServerless.name, str(error)) from None
    except BotoCoreError as error:
        raise no_answer(EmrServerless.name, str(error)) from None
