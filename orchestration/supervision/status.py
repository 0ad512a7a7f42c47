"""Status of a pipeline: when it is healthy, with the serving generation and parts of extensions.

Nothing is changed but what is known of the replication slot, which the next look needs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from orchestration.capture.interface import KeptComparison, installed_capture
from orchestration.comparison.kept_audit import KeptAudit, read_audit
from orchestration.supervision.belonging_finding import find_refusal
from orchestration.supervision.live_look import look_at_live
from orchestration.supervision.rules.verdict import Verdict
from orchestration.supervision.source_status import SourceStatus, source_status
from orchestration.supervision.status_part import StatusPart
from sources.common.state_document import Part
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport, StateError
from sources.extensions import contributions
from sources.generations import acting_on
from sources.kept_definitions import changed_since, in_service
from sources.planning.approval import find_approval
from sources.planning.plan import find_plan
from sources.planning.topics.followed_columns import FollowedChange, followed_columns
from sources.serving import candidate_name, is_replaced, read_serving
from sources.state.generation import Generation
from spark_jobs.checkpoint.kept_settings import overruled_settings
from spark_jobs.checkpoint.transform_compatibility import last_change
from spark_jobs.run_state.driver_lock import seen_lease
from spark_jobs.run_state.lease import SeenLease


class AuditVerdict(BaseModel):
    """Verdict of the last audit of a generation.

    Attributes:
        at_ms: When it was made, in ms since 1970.
        outcome: ``passed``, ``failed`` or ``unknown``.
        is_wrong: Whether it failed, and nobody has accepted that.
        text: What it found, and when, in a few sentences.
    """

    at_ms: int
    outcome: Literal["passed", "failed", "unknown"]
    is_wrong: bool
    text: str


class Status(BaseModel):
    """Status of a pipeline.

    Attributes:
        pipeline: Its name.
        generation: Name of the generation (computation of the whole table) that is looked at: the
            newest one; None if nothing was planned yet.
        serving: Name of the generation whose rows readers see.
        served_by: Status of the serving generation, whose health counts, too; None if it is this
            one, or if this one was asked for by name.
        planned: Whether its plan was made.
        waits_for_approval: Whether that plan waits for a person's approval.
        healthy: False if a run failed, is dead or silent, the live run is red, or checkpoint, state
            and target don't belong together; of this generation or of the serving one. False, too,
            if a part is not well, if a comparison with the database has found other rows, or if the
            last audit failed and nobody has accepted that.
        own_healthy: Whether this generation's runs are well, whatever was found in the table.
        sources: Progress of each source, in order.
        live: Verdict on the live run; None if it was never requested.
        refused: Why the next launch is refused: checkpoint, state and target don't belong
            together, or something was done to the captured table that no change reports. None if
            it is not.
        table_unknown: Why it is not known whether something was done to the captured table that no
            change reports; None if that is known, or there is none.
        narrowed: Columns of the captured table that were narrowed, which is ignored.
        compared: What comparisons with the database have found; None if none was made.
        transform_changed: Warning about a transform that changed under the checkpoint; None if
            none did.
        settings_overruled: Warning about declared settings of Spark that the checkpoint has other
            values of; None if there are none.
        changed_since_launch: Warning about files of the definition that have changed since the run
            was launched, which goes by what was there then; None if there are none, nothing runs,
            or that was not asked for.
        followed: Changes of the captured table's columns that this generation's runs followed.
        audit: Verdict of the last audit of this generation; None if there was none.
        parts: What extensions add; empty unless that was asked for. In a document each is a field
            of its own.
        absent: Warnings of this generation's plan about declared names that no sampled value has.
        lease: Lease of the driver, or of the process that launches one, with its holder and age;
            None if there was never one, or if the state is on a file system, whose kernel keeps
            the locks.
    """

    pipeline: str
    generation: str | None
    serving: str
    served_by: Status | None = None
    planned: bool
    waits_for_approval: bool = False
    healthy: bool
    own_healthy: bool = True
    sources: list[SourceStatus]
    live: Verdict | None = None
    refused: ErrorReport | None = None
    table_unknown: str | None = None
    narrowed: list[SerializeAsAny[Part]] = Field(default_factory=list)
    compared: SerializeAsAny[KeptComparison] | None = None
    transform_changed: str | None = None
    settings_overruled: str | None = None
    changed_since_launch: str | None = None
    followed: list[FollowedChange] = Field(default_factory=list)
    audit: AuditVerdict | None = None
    parts: Annotated[list[StatusPart], Field(exclude=True)] = Field(default_factory=list)
    absent: list[str] = Field(default_factory=list)
    lease: SeenLease | None = None

    @model_serializer(mode="wrap")
    def _with_parts(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {**serialize(self), **{each.name: each.document for each in self.parts}}


def status_of(loaded: LoadedPipeline, generation: str | None = None) -> Status:
    """Return the status of a pipeline as the command line shows it, with the parts of extensions.

    It is that of the newest generation, which has the serving one's in ``served_by`` if that is
    another one; or of the generation that is named.

    Args:
        loaded: The pipeline, as its file declares it now.
        generation: Name of the generation to look at instead; None for the newest.

    Raises:
        InputError: There is no such generation.
        StateError: The state can't be read.
        UnavailableError: A store or a broker does not answer.
    """
    # By the file as it is now, which a copy that was kept for a generation may differ from.
    parts = [part(loaded) for part in contributions("status")]
    if generation is not None or candidate_name(loaded) is None:
        # After a rollback the newest one neither serves nor waits.
        loaded = acting_on(loaded, generation)
    found = with_changed_files(status(loaded, alone=generation is not None), loaded)
    is_healthy = found.healthy and all(each.is_healthy for each in parts)
    return found.model_copy(update={"parts": parts, "healthy": is_healthy})


def status(loaded: LoadedPipeline, *, alone: bool = False) -> Status:
    """Return the status of a pipeline, by a look at its state, its processes and its topic.

    A broker that does not answer is no error: the lag is then unknown. What is seen of the
    replication slot and of the captured table is written to the state, and nothing else. Parts of
    extensions are not asked: see :func:`status_of`.

    Args:
        loaded: The pipeline.
        alone: Leave out the serving generation if it is another one.

    Raises:
        StateError: The state can't be read.
        InputError: A store or a broker refuses, or a cluster's command line tool is missing.
        UnavailableError: A store or a broker does not answer.
    """
    generation = loaded.open_generation(create=False)
    sources = [source_status(loaded, generation, source.name) for source in loaded.pipeline.sources]
    found = None
    if generation is not None:
        found = look_at_live(loaded, generation, sources, table_older_ms=0)
    if generation is not None and found is not None and found.capture is not None:
        found.capture.keep(generation)
    live = None if found is None else found.verdict
    refused = None if found is None else found.refused
    if found is None and generation is not None:
        refused = find_refusal(loaded, generation)
    plan = None if generation is None else find_plan(generation)
    waits = loaded.pipeline.approve and plan is not None
    if waits and generation is not None:
        waits = find_approval(generation) is None
    judged = sources if live is None else sources[:-1]
    others = [] if alone or loaded.kept is not None else in_service(loaded)[1:]
    served_by = status(others[0]) if others else None
    compared, narrowed = None, list[Part]()
    if generation is not None and (capture := installed_capture()) is not None:
        compared, narrowed = capture.compared(generation), [*capture.narrowed(generation)]
    own_healthy = (
        all(source.state not in ("failed", "dead", "silent") for source in judged)
        and not (live is not None and live.is_red)
        and refused is None
    )
    kept = None if generation is None else read_audit(generation)
    is_wrong = (kept is not None and kept.is_wrong) or bool(compared and compared.is_wrong)
    # After a rollback the newest one is kept, and whatever it does touches no table of readers.
    is_kept = generation is not None and is_replaced(loaded, generation.name)
    return Status(
        pipeline=loaded.pipeline.name,
        generation=generation.info.generation if generation else None,
        planned=plan is not None,
        waits_for_approval=waits,
        healthy=(is_kept or (own_healthy and not is_wrong))
        and (served_by is None or served_by.healthy),
        own_healthy=own_healthy,
        serving=read_serving(loaded).generation,
        served_by=served_by,
        sources=sources,
        live=live,
        refused=refused,
        compared=compared,
        table_unknown=None if found is None or found.capture is None else found.capture.doubt,
        narrowed=narrowed,
        transform_changed=None if generation is None else last_change(generation),
        settings_overruled=_overruled(loaded, generation),
        followed=[] if generation is None else followed_columns(generation),
        audit=None if kept is None else _verdict(kept),
        absent=[] if plan is None else plan.absent,
        lease=None if generation is None else seen_lease(generation),
    )


def _overruled(loaded: LoadedPipeline, generation: Generation | None) -> str | None:
    if generation is None:
        return None
    # A checkpoint that is damaged is told as what refuses the next launch.
    with suppress(StateError):
        return overruled_settings(loaded.pipeline, generation.checkpoint)
    return None


def with_changed_files(found: Status, loaded: LoadedPipeline) -> Status:
    """Return a status with ``changed_since_launch``.

    Asked apart: it reads the definition and its copy, and the supervision, which looks all the
    time, does not show it.

    Args:
        found: The status.
        loaded: The pipeline that it is of.

    Raises:
        UnavailableError: The state's store does not answer.
    """
    is_running = any(source.state == "running" for source in found.sources)
    if loaded.kept is not None or found.generation is None or not is_running:
        return found
    if not (changed := changed_since(loaded, found.generation)):
        return found
    have = "has" if len(changed) == 1 else "have"
    warning = (
        f"{', '.join(f'`{name}`' for name in changed)} {have} changed since the run was launched, "
        "which goes on with what was there then. What leaves the table's columns as they are takes "
        "effect with the next launch: `hybrid pause P`, `hybrid resume P`. To compute the whole "
        "table by it: `hybrid rerun P`."
    )
    return found.model_copy(update={"changed_since_launch": warning})


def _verdict(kept: KeptAudit) -> AuditVerdict:
    return AuditVerdict(
        at_ms=kept.at_ms, outcome=kept.outcome, is_wrong=kept.is_wrong, text=kept.text
    )
