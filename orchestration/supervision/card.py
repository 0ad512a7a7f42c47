"""Card of a pipeline: when it is well, failing or under way; what waits, what readers see."""

from __future__ import annotations

from collections import Counter

from pydantic import BaseModel, ConfigDict

from orchestration.capture.slot_state import unread_of
from orchestration.display import count, day, moment, shortened, whole_second
from orchestration.progress.in_words import STARTING as SPARK_STARTS
from orchestration.progress.in_words import action_in_words, awaited, progress_parts
from orchestration.progress.sparkline import sparkline
from orchestration.progress.table_facts import TableFacts
from orchestration.remedies import for_generation
from orchestration.supervision.source_status import SourceStatus
from orchestration.supervision.status import Status
from sources.common.counting import counted, counted_as
from sources.common.durations import DAY_MS
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.serving import candidate_name, read_serving
from sources.state.action_log import read_actions
from sources.state.generation import read_generation
from spark_jobs.launch.launch_record import last_launch, log_path
from spark_jobs.run_state.progress_log import last_minute, read_progress_log

_SHOWN, _LOGGED = 300, 150
_REASON = 420  # what to do is at its end
_WELL = ("Healthy", "Complete")
STARTING = "Starting"
"""Headline of a live run that was requested, and has not committed a micro-batch yet."""
_PARTIAL = "Reading the snapshot"
_RESTARTED = "It is restarted automatically."
_UNANSWERED = "Broker does not answer"
_UNKNOWN_LAG = ("catching-up", "late")
_NOT_UP = ("paused", "stopped", "dead", "failed", "crash-looping")
_AT_WORK = ("starting", "running", "silent", "failed", "dead", "stopped")


class Card(BaseModel):
    """Card of a pipeline: a summary at one moment, for people.

    Attributes:
        headline: In a word or two, such as ``Healthy`` or ``Reading history``.
        text: One line: headline, what waits, newest row, which generation serves.
        roles: Which generation serves, and how far a candidate is; the end of the line.
        reason: Why it is not well, in sentences; empty if it is.
        markdown: The line and the reason, with links; less than 1,000 characters, which is what
            Dagster's pages show in full.
        plots: Lag and throughput of the last 24 hours as Markdown, as short as that; None if
            nothing is known of them.
        is_moving: Whether the next look will show something else, such as progress of history.
        is_well: Whether the table is complete, or its live run is healthy.
        is_failing: Whether something is broken, such as a run that has failed.
        is_under_way: Whether it is on its way to be well, and nothing is known to be wrong: not
            begun, reading history, or starting.
    """

    model_config = ConfigDict(frozen=True)

    headline: str
    text: str
    roles: str
    reason: str
    markdown: str
    plots: str | None
    is_moving: bool
    is_well: bool
    is_failing: bool
    is_under_way: bool = False


def card(loaded: LoadedPipeline, found: Status, facts: TableFacts | None) -> Card:
    """Return the card of a pipeline: of its serving generation, with the candidate named.

    Args:
        loaded: The pipeline.
        found: The status of its newest generation, now.
        facts: What the log of the table says that readers see; None if there is no table yet.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    served = found.served_by or found
    headline, details = _state(loaded, served)
    wrong = _wrong_rows(served)
    candidate = _bad_candidate(found)
    if wrong and served.refused is None:
        headline, details = wrong[0], [headline.lower(), *details]
    elif candidate:
        headline, details = candidate[0], [headline.lower(), *details]
    more = [*_newest_row(loaded, served, facts), *_left_out(served)]
    roles = _roles(loaded, found, is_there=facts is not None)
    parts = [headline, *details, *more, roles]
    lines = [f"**{headline}**" + "".join(f" · {part}" for part in parts[1:])]
    live = served.live
    reason = "" if live is None or live.health == "healthy" else live.reason
    if live is not None and live.health == "dead" and loaded.pipeline.supervision.restarts.limit:
        reason = f"{_RESTARTED} {reason}"
    for first in (wrong, candidate):
        reason = " ".join(filter(None, (first and first[1], reason)))
    lines += [shortened(reason, _REASON)] if reason else []
    lines += [f"Warning: {shortened(each, _SHOWN)}" for each in served.absent[:1]]
    lines += [each.note for each in served.sources if each.note and each.note not in reason]
    audited = _audited(served, is_there=facts is not None)
    # Where an audit failed, the reason tells of it already.
    lines += [] if audited in reason else [audited]
    lines += _links(loaded, served, facts)
    if last := read_actions(loaded.state, last=1):
        # What a job did last is a row of its own, `last action`, and may be something else.
        what = shortened(action_in_words(last[0]), _LOGGED)
        lines.append(f"Log of actions, {moment(last[0].at_ms)} UTC: {what}")
    lines.append(
        f"Checked {whole_second(now_ms())}; shown until something changes. The checks "
        "tell when that was last looked at."
    )
    is_moving = any(each.state in ("starting", "running") for each in found.sources) and (
        found.live is None or found.live.health == "starting"
    )
    is_well = found.healthy and headline in _WELL
    return Card(
        headline=headline,
        text=" · ".join(parts),
        roles=roles,
        reason=reason,
        markdown="\n\n".join(lines),
        plots=_plots(loaded, served),
        is_moving=is_moving,
        is_well=is_well,
        is_failing=not found.healthy,
        is_under_way=found.healthy
        and not is_well
        and not found.waits_for_approval
        and (live is None or live.health == "starting" or headline == _PARTIAL),
    )


def unknown_card(text: str) -> Card:
    """Return the card of a pipeline whose state, or whose table, can't be looked at: it is failing.

    Args:
        text: Why, in Markdown; shown as it is.
    """
    return Card(
        headline="Unknown",
        text=text,
        roles="",
        reason="",
        markdown=text,
        plots=None,
        is_moving=False,
        is_well=False,
        is_failing=True,
    )


def _state(loaded: LoadedPipeline, found: Status) -> tuple[str, list[str]]:
    """Return the headline, and what belongs to it."""
    name = loaded.pipeline.name
    if found.refused is not None:
        return "Refused", [shortened(found.refused.message, _SHOWN)]
    if found.live is not None:
        lag = found.sources[-1].lag
        waits = [] if lag is None else [f"{count(lag)} waiting"]
        if unread := unread_of(found.live.numbers):
            waits.append(unread)
        is_up = found.live.health not in _NOT_UP
        since = _since(loaded, found) if is_up else []
        headline = found.live.health.replace("-", " ").capitalize()
        unknown = found.sources[-1].lag_error
        if found.live.health in _UNKNOWN_LAG and unknown is not None and unknown.transient:
            headline = _UNANSWERED
        if found.live.health == "starting":
            return STARTING, [awaited(found.sources[-1].state), *waits]
        if (chunks := found.sources[-1].open_snapshot) is not None:
            headline = _PARTIAL if headline == "Healthy" else headline
            return headline, [chunks, *waits, *since]
        return headline, [*waits, *since]
    if not found.planned:
        return "Not started", [f"materialize the job `{name}` to start"]
    if found.waits_for_approval:
        return "Waiting for approval", [f"open the job `{name}_control`, and choose APPROVE"]
    reading = next((each for each in reversed(found.sources) if each.state in _AT_WORK), None)
    if reading is not None:
        return _reading(reading)
    if all(each.state == "finished" for each in found.sources):
        return "Complete", []
    return "Planned", [f"materialize the job `{name}` to read and write"]


def _wrong_rows(found: Status) -> tuple[str, str] | None:
    """Return a headline and the reason if the table was found to be wrong; None if it was not."""
    if found.audit is not None and found.audit.is_wrong:
        return "Audit failed", found.audit.text
    if found.compared is not None and found.compared.is_wrong:
        return "Differs from the database", found.compared.text
    return None


def _audited(found: Status, *, is_there: bool) -> str:
    """Return the verdict of the last audit; without one how to audit, if there is a table."""
    if found.audit is not None:
        return found.audit.text
    return "Never audited: `hybrid audit P` proves a table right or wrong." if is_there else ""


def _bad_candidate(found: Status) -> tuple[str, str] | None:
    """Return a headline and the reason if a candidate alone is not well; None otherwise.

    Args:
        found: Its status, with that of the generation that serves.
    """
    served = found.served_by
    if served is None or found.healthy or not served.healthy:
        return None
    failed = [each for each in found.sources if each.state in ("failed", "dead", "silent")]
    way = "To continue it: `hybrid rerun P`; to delete it: `hybrid generation discard P`."
    if found.refused is not None:
        headline, why = "Candidate refused", str(found.refused)
    elif found.live is not None and found.live.is_red:
        headline, why = f"Candidate {found.live.health}", found.live.reason
    elif failed:
        beat = failed[-1].heartbeat
        headline, why = f"Candidate {failed[-1].state}", f"See the log of `{failed[-1].source}`."
        if beat is not None and beat.failure is not None:
            why = for_generation(str(beat.failure), found.generation or "")
    else:
        headline, why = "Candidate wrong", (_wrong_rows(found) or ("", ""))[1]
        # Continued, its rows would be only compared again.
        way = "To compute it again: `hybrid generation discard P`, then `hybrid rerun P`."
    return headline, (
        f"Readers go on to see {found.serving}, which is well; candidate {found.generation} is "
        f"not. {way}{why and f' {found.generation}: {why}'}"
    )


def _left_out(found: Status) -> list[str]:
    """Return how many records of all sources were left out as bad, and by each rule."""
    beats = [each.heartbeat for each in found.sources if each.heartbeat is not None]
    bad = sum(each.bad_records for each in beats)
    counts = sum((Counter(each.broken_rules) for each in beats), Counter[str]())
    broken = [f"{counted(n, 'row breaks', 'rows break')} `{name}`" for name, n in counts.items()]
    return [*([f"{counted(bad, 'bad record')} left out"] if bad else []), *broken]


def _reading(source: SourceStatus) -> tuple[str, list[str]]:
    if source.state == "starting":
        return f"Reading {source.source}", [SPARK_STARTS]
    if source.state != "running":
        failure = None if source.heartbeat is None else source.heartbeat.failure
        more = [] if failure is None else [shortened(failure.message, _SHOWN)]
        return f"Reading {source.source}: {source.state}", more
    return f"Reading {source.source}", _progress(source)


def _progress(source: SourceStatus) -> list[str]:
    beat = source.heartbeat
    return [] if beat is None else progress_parts(beat, source.eta_s)


def _newest_row(loaded: LoadedPipeline, found: Status, facts: TableFacts | None) -> list[str]:
    """Return the newest row: of the table, or else of what the runs say that they read.

    A run that was started again has read nothing yet; what the runs before it have read counts.
    """
    times = _read_times(loaded, found)
    if facts is not None and facts.newest_ms is not None:
        times = [facts.newest_ms]
    newest = [f"newest row {day(max(times))}"] if times else []
    if facts is None:
        return newest
    rows = [] if facts.rows is None else [f"{count(facts.rows)} {counted_as(facts.rows, 'row')}"]
    written = facts.written_ms
    last = [] if written is None else [f"last rows written {moment(written)} UTC"]
    return [*newest, *rows, *last]


def _read_times(loaded: LoadedPipeline, found: Status) -> list[int]:
    """Return the highest event times that the runs of all sources have reported, in ms."""
    reported = [each.heartbeat.event_time_ms for each in found.sources if each.heartbeat]
    if found.generation is not None:
        generation = read_generation(loaded.state, found.generation)
        for source in found.sources:
            log = read_progress_log(generation, source.source)
            reported += [] if log is None else [each.event_time_ms for each in log.samples]
    return [each for each in reported if each is not None]


def _roles(loaded: LoadedPipeline, found: Status, *, is_there: bool) -> str:
    before = read_serving(loaded).before
    kept = f", kept for a rollback: {before[-1].generation}" if before else ""
    if (candidate := candidate_name(loaded)) is not None:
        return f"serving {found.serving}, candidate {candidate} ({_of_candidate(found)}){kept}"
    return f"serving {found.serving}, candidate none{kept}" if is_there else "no table yet"


def _of_candidate(found: Status) -> str:
    """Return in a word or two how far a candidate is: of one that nobody runs nothing is computed.

    Args:
        found: Its status.
    """
    if found.live is not None:
        return found.live.health
    if found.waits_for_approval:
        return "waiting for approval"
    states = [each.state for each in found.sources]
    if all(each == "finished" for each in states):
        return "computed"
    begun = [each for each in states if each not in ("finished", "waiting")]
    if not begun:
        return "interrupted" if "finished" in states else "not started"
    return "computing" if begun[-1] in ("starting", "running") else begun[-1]


def _since(loaded: LoadedPipeline, found: Status) -> list[str]:
    if found.generation is None:
        return []
    launch = last_launch(read_generation(loaded.state, found.generation))
    return [] if launch is None else [f"running since {moment(launch.at_ms)} UTC"]


def _links(loaded: LoadedPipeline, found: Status, facts: TableFacts | None) -> list[str]:
    source = found.sources[-1]
    lines = []
    is_up = source.state == "running"
    if is_up and source.heartbeat is not None and source.heartbeat.ui_url is not None:
        lines.append(f"[Spark UI]({source.heartbeat.ui_url})")
    if found.generation is not None and source.heartbeat is not None:
        log = log_path(read_generation(loaded.state, found.generation), source.source)
        lines.append(f"log: {log}")
    if facts is not None:
        lines.append(f"table: {facts.url}, version {facts.version:,}")
    return lines


def _plots(loaded: LoadedPipeline, found: Status) -> str | None:
    """Return lag and throughput of the last 24 hours as two small plots; None if there are none."""
    if found.generation is None:
        return None
    source = found.sources[-1]
    log = read_progress_log(read_generation(loaded.state, found.generation), source.source)
    if log is None or not log.samples:
        return None
    kept, at_ms = log.last_day, now_ms()
    recent = [each for each in kept.intervals if each.at_ms + kept.length_ms > at_ms - DAY_MS]
    if not recent:
        return None
    *earlier, last = log.samples
    left = [(each.at_ms, float(each.left)) for each in recent if each.left is not None]
    rates = [(each.at_ms, each.per_s) for each in recent if each.per_s is not None]
    of = f"of {found.generation}"
    plots = [
        # The headline says what waits now.
        sparkline(
            f"{log.unit} left after a micro-batch {of}",
            left,
            kept.length_ms,
            (last.at_ms, last.left),
        ),
        sparkline(
            f"{log.unit}/s over a minute {of}",
            rates,
            kept.length_ms,
            (last.at_ms, last_minute(earlier, last)),
        ),
    ]
    return "\n\n".join(plots)
