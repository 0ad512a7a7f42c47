"""Reports of the supervision: at once after a change, else once a minute; which materialize."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import dagster as dg
from pydantic import BaseModel, Field

from orchestration.comparison.installed_audit import audit_again
from orchestration.comparison.kept_audit import last_audit
from orchestration.defs.assets.data_versions import live_tags, table_tags
from orchestration.defs.assets.table import (
    card_and_facts,
    card_metadata,
    kept_action,
    last_action,
    last_day,
    some_rows,
    table_metadata,
)
from orchestration.defs.checks.table import comparison_again, health_evaluation
from orchestration.defs.jobs.restarts_of_a_day import restarts_of_a_day
from orchestration.defs.keys import live_key, role_of, table_key
from orchestration.defs.show import metadata
from orchestration.defs.show.dagster_remedies import in_dagster, verdict_in_dagster
from orchestration.display import shortened
from orchestration.progress.table_facts import TableFacts
from orchestration.supervision.card import Card, unknown_card
from orchestration.supervision.live_look import look_at_live
from orchestration.supervision.rules.findings import merge_findings
from orchestration.supervision.supervisor import Tick, watched
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import HybridError, StateError
from sources.ledger import read_ledger
from sources.planning.approval import find_approval
from sources.serving import read_serving
from sources.state.action_log import read_actions
from sources.state.generation import PLAN
from spark_jobs.launch.launch_record import last_launch_id
from spark_jobs.run_state.heartbeat import read_heartbeat

REPORT_MS = 60_000
"""Time between two equal reports: one for each look would fill Dagster's event log."""
_MOVING_MS = 20_000
_SHOWN = 900
_ENDED = ("Paused", "Stopped")
"""Headlines of a live run that people have ended."""

Event = dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation


class Cursor(BaseModel):
    """State of the sensor between ticks, which Dagster stores.

    Attributes:
        at_ms: When it last reported, in ms since 1970; 0 before the first report.
        seen: What was seen then, as JSON values that are only compared.
        is_moving: Whether that was about to change, such as the progress of history.
        version, headline, roles: Version of the table, headline of its card, and which generation
            serves, beside which candidate, at the last report.
        was_well: Whether the check of its health passed then; None if it was never evaluated.
        audited: The last audit that it reported: when it was made (ms), and 1 if it is accepted.
        action: The last action of people that it showed: its number, and how it ended.
        unknown: Why the last look failed; empty if it did not.
        unknown_since_ms: When the first of the last looks failed, in ms since 1970; 0 if the last
            one did not.
        alerted: Whether a webhook, if one is declared, was told that the state is unknown.
    """

    at_ms: int = 0
    seen: list[Any] = Field(default_factory=list)
    is_moving: bool = False
    version: int | None = None
    headline: str = ""
    roles: str = ""
    was_well: bool | None = None
    audited: list[int] = Field(default_factory=list)
    action: list[int | str] = Field(default_factory=list)
    unknown: str = ""
    unknown_since_ms: int = 0
    alerted: bool = False


class Reports(NamedTuple):
    """Reports of one tick of the sensor.

    Attributes:
        events: Materializations, observations and evaluations of checks; often none.
        cursor: What the next tick has to know.
        text: The pipeline's card in a line, or why nothing is reported.
    """

    events: list[Event]
    cursor: Cursor
    text: str


def reports(
    instance: dg.DagsterInstance,
    loaded: LoadedPipeline,
    found: Sequence[tuple[LoadedPipeline, Tick]],
    cursor: Cursor,
    done: str = "",
) -> Reports:
    """Return what the sensor reports to Dagster: at once after a change, else once a minute.

    A new version of the table that readers see is a materialization of the table's asset, at most
    one a minute, so that what depends on the table is notified; so is a card that says something
    else than a moment ago, as pages show the last materialization: another headline, audit, action
    or state of a candidate. Everything else is an observation.

    Args:
        instance: Dagster's instance, which has earlier events and runs.
        loaded: The pipeline.
        found: The live runs in service with the outcome of this look at each, the newest generation
            first.
        cursor: The cursor of the last tick.
        done: What an action has just done, in Markdown; empty for none.

    Raises:
        StateError: The state can't be read, or is gone since the last report.
        InputError: The table can't be read.
        UnavailableError: The state's store does not answer.
    """
    found = [
        (each, tick._replace(verdict=verdict_in_dagster(tick.verdict, loaded)))
        for each, tick in found
    ]
    generation = loaded.open_generation(create=False)
    if generation is None and cursor.version is not None:
        message = f"The state of pipeline `{loaded.pipeline.name}` is gone from {loaded.state.url}."
        hint = "Restore it. If the file's `name` or `state` has changed, reload the code location."
        raise StateError(message, hint)
    if generation is None or not (found or generation.exists(PLAN)):
        return Reports([], cursor, "Nothing was planned yet, so there is nothing to watch.")
    # Until it has shown itself, a run has neither met what is expected of it nor failed. One that
    # was paused is no longer, and no check may go on to say so.
    was_ended = cursor.headline in _ENDED
    known = [each for each in found if was_ended or each[1].verdict.health != "starting"]
    findings = merge_findings([(_name(each), tick.verdict.findings) for each, tick in known])
    healths = [tick.verdict.health for _, tick in found]
    serving = read_serving(loaded).generation
    beats = [read_heartbeat(generation, source.name) for source in loaded.pipeline.sources]
    # A new plan waits for an approval again.
    waits = loaded.pipeline.approve and find_approval(generation) is None
    seen = [
        [generation.name, serving, last_launch_id(generation), waits],
        [None if beat is None else beat.state for beat in beats],
        healths,
        *([each.passed, each.is_pending] for each in findings),
    ]
    at_ms = now_ms()
    audit = last_audit(loaded)
    audited = [] if audit is None else [audit.at_ms, int(audit.accepted is not None)]
    # One that was shown as begun has ended, or failed.
    action: list[int | str] = [
        part for each in read_actions(loaded.state, last=1) for part in (each.number, each.outcome)
    ]
    # Checks are not evaluated any more once a run has materialized the table.
    latest = instance.get_latest_materialization_event(table_key(loaded))
    by_run = bool(latest and latest.run_id and latest.timestamp * 1000 > cursor.at_ms)
    is_same = (cursor.seen, cursor.audited, cursor.action) == (seen, audited, action)
    if is_same and not by_run and at_ms - cursor.at_ms < _wait_ms(cursor, is_live=bool(found)):
        return Reports([], cursor, "Nothing changed since the last report.")
    card, facts = _look(loaded)
    version = cursor.version if facts is None else facts.version
    # Dagster's overview of an asset shows its last materialization, whatever was observed since.
    # Of a plan, which changes no table, there is nothing that was materialized.
    before = (cursor.version, cursor.headline, cursor.roles, cursor.action, cursor.audited)
    now_shown = (version, card.headline, card.roles, action, audited)
    is_new = before != now_shown and bool(found or facts)
    kind = dg.AssetMaterialization if is_new else dg.AssetObservation
    tags = table_tags(loaded, version)
    first = card_metadata(card, restarts_of_a_day(instance, loaded))
    of_table = {} if facts is None else table_metadata(loaded, facts)
    acted = {**kept_action(instance, loaded), **(last_action(done) if done else {})}
    told = {**first, **acted, **last_day(card), **of_table}
    if is_new and facts is not None:
        # The audit tells of files that can't be read.
        with contextlib.suppress(HybridError):
            told |= some_rows(loaded, facts)
    events: list[Event] = []
    # One entry, of the stream that readers depend on: a candidate is a line of it.
    for each, tick in found[-1:]:
        shown = {
            **first,
            "generation": role_of(loaded, _name(each)),
            **_candidate(found),
            **metadata.observation(tick.verdict),
            **_removed(each),
        }
        events.append(kind(live_key(loaded), metadata=shown, tags=live_tags(loaded)))
    events.append(kind(table_key(loaded), description=card.text, metadata=told, tags=tags))
    events += [metadata.evaluation(live_key(loaded), each) for each in findings]
    evaluated = health_evaluation(loaded, card, cursor.was_well, was_ended=was_ended)
    events += [] if evaluated is None else [evaluated]
    # Dagster shows a check as not evaluated after each materialization.
    if is_new or by_run or audited != cursor.audited:
        again = (audit_again(instance, loaded), comparison_again(instance, loaded))
        events += [each for each in again if each is not None]
    after = Cursor(
        at_ms=at_ms,
        seen=seen,
        is_moving=card.is_moving,
        version=version,
        headline=card.headline,
        roles=card.roles,
        was_well=cursor.was_well if evaluated is None else card.is_well,
        audited=audited,
        action=action,
    )
    return Reports(events, after, card.text)


def report_now(context: dg.OpExecutionContext, loaded: LoadedPipeline, done: str) -> None:
    """Log what an action has done, and report how the pipeline is, as the next look would.

    So no page shows what was before the action until the supervision looks again. A pipeline that
    can't be looked at, or whose file is invalid since, is left to that.

    Args:
        context: The Dagster run of the action.
        loaded: The pipeline.
        done: The action and what it has done, such as ``PAUSE: …``, in Markdown.
    """
    context.log.info(done)
    try:
        load_pipeline(loaded.path)
        looks = [(each, look_at_live(each, each.require_generation())) for each in watched(loaded)]
        found = [(each, Tick(look.verdict, None, None)) for each, look in looks if look is not None]
        shown = reports(context.instance, loaded, found, Cursor(), done)
    except HybridError as error:
        context.log.warning(
            f"How the pipeline is now can't be shown. {error_in_dagster(error, loaded)}"
        )
        return
    for event in shown.events:
        context.instance.report_runless_asset_event(event)


def _look(loaded: LoadedPipeline) -> tuple[Card, TableFacts | None]:
    """Look at the table; one that can't be read must not hide the verdict on the live run."""
    try:
        return card_and_facts(loaded)
    except HybridError as error:
        return unknown_card(
            f"**The table can't be looked at.** {error_in_dagster(error, loaded)}"
        ), None


def error_in_dagster(error: Exception, loaded: LoadedPipeline) -> str:
    """Return an error as a card shows it: with Dagster's ways out, and of limited length."""
    return shortened(in_dagster(str(error), loaded), _SHOWN)


def _wait_ms(cursor: Cursor, *, is_live: bool) -> float:
    """Return how long a report stands while nothing changes."""
    if cursor.is_moving:
        return _MOVING_MS
    return REPORT_MS if is_live else math.inf


def _candidate(found: Sequence[tuple[LoadedPipeline, Tick]]) -> dict[str, str]:
    """Return how the candidate's live run is, in a line; empty without one."""
    if len(found) < 2:
        return {}
    loaded, tick = found[0]
    return {"candidate": f"{_name(loaded)}: {tick.verdict.health}. {tick.verdict.reason}"}


def _removed(loaded: LoadedPipeline) -> metadata.Metadata:
    """Return how many duplicates were removed at the last hand-over; empty if that is unknown."""
    _, count = read_ledger(loaded.require_generation(), loaded.pipeline.sources[-1].name)
    return metadata.removed(count)


def _name(loaded: LoadedPipeline) -> str:
    return loaded.require_generation().name
