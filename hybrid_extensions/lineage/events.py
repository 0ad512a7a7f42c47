"""OpenLineage events of runs: START, RUNNING, COMPLETE, FAIL, ABORT; a lost one stops nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.facet_v2 import error_message_run, job_type_job
from openlineage.client.transport.console import ConsoleTransport

from hybrid_extensions.lineage.datasets import inputs_of, output_of
from hybrid_extensions.lineage.declare import Lineage
from orchestration.step_observers import PROMOTION, Tell
from sources.config.loader import LoadedPipeline
from sources.config.source.exported_source import export_step
from sources.errors import InputError, StateError
from sources.planning.context import PipelineContext
from sources.serving import target_of

_PRODUCER = f"https://pypi.org/project/hybrid-backfill/{version('hybrid-backfill')}"
_WRITES_NOTHING = ("plan", "take_snapshot", "rest_of_snapshot")


class EventSender:
    """Sender of a pipeline's OpenLineage events.

    An event that can't be delivered raises nothing: ``tell`` says so.

    Args:
        loaded: The pipeline.
        lineage: The declaration, with the namespace of the jobs.
        tell: Called with a line about an event that was not delivered.

    Raises:
        InputError: OpenLineage's client is not configured, or wrongly.
    """

    def __init__(self, loaded: LoadedPipeline, lineage: Lineage, tell: Tell) -> None:
        self._loaded, self._lineage, self._tell = loaded, lineage, tell
        self._client = _client(loaded.pipeline.name)

    @contextmanager
    def run(self, job: str, source: str | None) -> Iterator[None]:
        """Send START, then after the body of ``with`` COMPLETE, FAIL (error) or ABORT (interrupt).

        An error of the body is raised again.

        Args:
            job: Name of the job within the pipeline.
            source: Name of the source that the job reads; None for all of them.
        """
        run = str(uuid.uuid4())
        self._send(RunState.START, job, run, source)
        try:
            yield
        except Exception as error:
            text = error_message_run.ErrorMessageRunFacet(str(error), "Python")
            self._send(RunState.FAIL, job, run, source, {"errorMessage": text})
            raise
        except BaseException:
            self._send(RunState.ABORT, job, run, source)
            raise
        self._send(RunState.COMPLETE, job, run, source)

    def live_run_started(self, source: str, launch_id: str) -> None:
        """Send START and RUNNING for a live run that has committed its first micro-batch.

        Args:
            source: Name of the source that it reads, which is also the job.
            launch_id: Id of its launch, from which the id of the OpenLineage run is derived.
        """
        run = _run_of(launch_id)
        self._send(RunState.START, source, run, source, is_stream=True)
        self._send(RunState.RUNNING, source, run, source, is_stream=True)

    def live_run_ended(self, source: str, launch_id: str) -> None:
        """Send COMPLETE for a live run, with the offsets that it has reached.

        Args:
            source: Name of the source that it read.
            launch_id: Id of its launch, as for :meth:`live_run_started`.
        """
        self._send(RunState.COMPLETE, source, _run_of(launch_id), source, is_stream=True)

    def _send(
        self,
        state: RunState,
        job: str,
        run: str,
        source: str | None,
        facets: dict[str, Any] | None = None,
        *,
        is_stream: bool = False,
    ) -> None:
        kind = job_type_job.JobTypeJobFacet(
            processingType="STREAMING" if is_stream else "BATCH",
            integration="HYBRID_BACKFILL",
            jobType="JOB",
        )
        try:
            inputs = inputs_of(self._loaded, _planned(self._loaded), source)
            # A generation that waits for its promotion has a table of its own.
            own = self._loaded.target if job == PROMOTION else target_of(self._loaded)
            outputs = [] if self._writes_nothing(job) else [output_of(self._loaded, own, inputs)]
            event = RunEvent(
                eventTime=datetime.now(UTC).isoformat(),
                producer=_PRODUCER,
                eventType=state,
                run=Run(run, facets=facets or {}),
                job=Job(
                    self._lineage.namespace,
                    f"{self._loaded.pipeline.name}.{job}",
                    facets={"jobType": kind},
                ),
                inputs=inputs,
                outputs=outputs,
            )
            self._client.emit(event)
        except Exception as error:
            # Whatever a catalog's client raises: the data is right without it.
            reason = str(error).strip().splitlines()[0].removesuffix(".") if str(error) else error
            self._tell(f"The OpenLineage event {state.value} of {job} was not delivered: {reason}.")

    def _writes_nothing(self, job: str) -> bool:
        exported = self._loaded.pipeline.exported_sources
        return job in {*_WRITES_NOTHING, *(export_step(each.name) for each in exported)}


def _planned(loaded: LoadedPipeline) -> PipelineContext | None:
    """Return the pipeline with its plan; None before it is planned."""
    context = PipelineContext.find(loaded)
    try:
        return context if context is not None and context.plan else None
    except StateError:
        return None


def _run_of(launch_id: str) -> str:
    """Return the run of a launch: each process that reports about it has to find the same one."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, launch_id))


def _client(pipeline: str) -> OpenLineageClient:
    hint = (
        "Set OPENLINEAGE_URL (and OPENLINEAGE_API_KEY), or write `openlineage.yml` or other "
        "variables as OpenLineage's Python client reads them; or remove `lineage`."
    )
    try:
        client = OpenLineageClient()
    except Exception as error:
        reason = str(error).strip().removesuffix(".")
        message = f"Pipeline `{pipeline}`: OpenLineage's client can't be set up: {reason}."
        raise InputError(message, hint, pipeline=pipeline, field="lineage") from None
    # The client's own fallback: it prints events into the log.
    if isinstance(client.transport, ConsoleTransport) and not client.config.transport:
        message = f"Pipeline `{pipeline}` declares `lineage`, and nothing says where events go."
        raise InputError(message, hint, pipeline=pipeline, field="lineage")
    return client
