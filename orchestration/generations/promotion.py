"""Promotion: readers get another generation's rows, in one commit, and can get the old ones back.

What is done is written down before it begins (``switch.json``), each step may be repeated, and
while it is under way no run of the pipeline is started. Whoever comes by finishes it.
"""

from __future__ import annotations

import os
import shutil

from orchestration import chain
from orchestration.requested_state import read_wanted, want
from orchestration.supervision.health import Verdict
from orchestration.supervision.status import look_at_live
from sources.common.positions import now_ms
from sources.common.state import Folder, Generation, read_generation
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import StateError
from sources.generations import (
    OWNER,
    Served,
    Serving,
    Switch,
    kept_file,
    newest,
    own_table,
    pending_switch,
    read_serving,
    remove,
    require_waiting,
    write_serving,
)
from sources.hybrid import Boundedness, SwitchState
from sources.kafka.client import KafkaLog
from sources.kafka.start_checks import check_not_deleted
from spark_jobs.checkpoint import offset_log
from spark_jobs.launch import process
from spark_jobs.run_state.lock import take_switch_lock
from spark_jobs.target.adopt_table import NO_MORE, take_over, transactions_of, version_of


def promote(loaded: LoadedPipeline) -> Serving:
    """Let readers see the newest generation; the one that served until now is ended.

    Raises:
        StateError: There is no generation to promote, or it is not ready: history not read, its
            live run not there, or red.
        InputError: Its table can't take the target's place.
    """
    finish(loaded)
    name = require_waiting(loaded, "Begin one with `hybrid generation new`, and run it.")
    _require_ready(loaded, loaded.require_generation())
    _begin(loaded, name, read_serving(loaded).generation)
    finish(loaded)
    return read_serving(loaded)


def roll_back(loaded: LoadedPipeline) -> Serving:
    """Let readers see the generation again that served before; its live run goes on from there.

    Raises:
        StateError: None served before.
        SeamError: Kafka has deleted records meanwhile that its live run would go on with.
    """
    finish(loaded)
    serving = read_serving(loaded)
    if not serving.before:
        message = f"No generation of pipeline `{loaded.pipeline.name}` served before this one."
        raise StateError(message, "Only what was promoted can be rolled back.")
    name = serving.before[-1].generation
    before = _declaration(loaded, name)
    last = before.pipeline.sources[-1]
    if isinstance(last, KafkaSource):
        check_not_deleted(chain.reached(before, last), KafkaLog(last).log_start())
    _begin(loaded, name, serving.generation)
    finish(loaded)
    return read_serving(loaded)


def finish(loaded: LoadedPipeline) -> bool:
    """Finish a promotion or a rollback that was begun; does nothing if none was.

    Returns:
        Whether there was one.

    Raises:
        RunError: A run can't be ended, or the one that is to serve does not come up; it is wanted
            then, and supervision goes on trying.
        StateError: Its files are gone.
    """
    if pending_switch(loaded) is None:
        return False
    if (lock := take_switch_lock(loaded.state)) is None:
        message = f"Another process changes which generation of `{loaded.pipeline.name}` serves."
        raise StateError(message, "Wait for it.")
    try:
        to = _switch(loaded)
    finally:
        os.close(lock)
    if to is not None:
        last = to.pipeline.sources[-1]
        if last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
            chain.go_live(to, last)
    return True


def _switch(loaded: LoadedPipeline) -> LoadedPipeline | None:
    """Do what was begun, all but the start; returns what is to be started."""
    switch = pending_switch(loaded)
    if switch is None:
        # Another process was first.
        return None
    to, past = (_declaration(loaded, name) for name in (switch.to, switch.past))
    _end_runs(to, past)
    target = loaded.locate(loaded.pipeline.sink.path)
    if switch.target_version is None:
        switch = switch.model_copy(update={"target_version": version_of(target)})
        Folder(loaded.state).replace(Switch.NAME, switch)
    assert switch.target_version is not None
    _commit(loaded, switch, target)
    serving = read_serving(loaded)
    if serving.generation != switch.to:
        gone = Served(generation=switch.past, version=switch.target_version, until_ms=now_ms())
        kept = [each for each in serving.before if each.generation not in (switch.to, switch.past)]
        # One that is rolled back is not what to go back to next.
        older = [gone, *kept] if switch.is_rollback else [*kept, gone]
        write_serving(loaded, Serving(generation=switch.to, before=older))
    # Its files are linked into the target by now.
    shutil.rmtree(own_table(loaded, switch.to), ignore_errors=True)
    _clean(loaded)
    last = to.pipeline.sources[-1]
    if last.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
        # Whoever finds it down from now on brings it up.
        want(to.require_generation(), last.name, is_wanted=True)
    Folder(loaded.state).path(Switch.NAME).unlink()
    return to


def _require_ready(loaded: LoadedPipeline, generation: Generation) -> None:
    enumerator = SwitchState(loaded.pipeline.hybrid_source(), generation)
    for source in loaded.pipeline.sources:
        is_bounded = source.boundedness is Boundedness.BOUNDED
        if is_bounded and enumerator.end_of(source.name) is None:
            message = f"Generation {generation.name} has not read `{source.name}` to its end."
            raise StateError(message, "Run it: `hybrid run`.")
        if is_bounded:
            continue
        look = look_at_live(loaded, generation)
        verdict: Verdict | None = None if look is None else look.verdict
        if verdict is None or verdict.health != "healthy":
            found = "was never started" if verdict is None else f"is {verdict.health}"
            why = "" if verdict is None else f" ({verdict.reason})"
            message = f"The live run of generation {generation.name} {found}{why}."
            hint = "Readers would get less than they have: promote it once it is healthy."
            raise StateError(message, hint)


def _begin(loaded: LoadedPipeline, to: str, past: str) -> None:
    is_rollback = read_serving(loaded).served(to) is not None
    made = Switch(to=to, past=past, at_ms=now_ms(), is_rollback=is_rollback)
    Folder(loaded.state).put_if_absent(Switch.NAME, made)


def _end_runs(to: LoadedPipeline, past: LoadedPipeline) -> None:
    """End what runs of both; the one is wanted again once its rows are in the target."""
    generation = past.require_generation()
    last = past.pipeline.sources[-1].name
    if (wanted := read_wanted(generation)) is not None and (wanted.is_wanted or wanted.is_paused):
        want(generation, last, is_wanted=False)
    for loaded in (to, past):
        for source in loaded.pipeline.sources:
            process.stop(loaded.require_generation(), source.name)


def _commit(loaded: LoadedPipeline, switch: Switch, target: str) -> None:
    to, past = (read_generation(loaded.state, name) for name in (switch.to, switch.past))
    fence = dict.fromkeys(_writers(past), NO_MORE)
    served = read_serving(loaded).served(switch.to)
    source = own_table(loaded, switch.to) if served is None else target
    version = None if served is None else served.version
    if transactions_of(target, list(fence)) == fence:
        return
    written = transactions_of(source, _writers(to), version)
    # Of a driver that was taken for dead and wakes up, no batch gets in any more.
    properties = {OWNER: to.info.transaction_id}
    take_over(target, source, version, {**written, **fence}, properties)


def _writers(generation: Generation) -> list[str]:
    """The ids under which a generation writes: its own in a MERGE, its query's when it appends."""
    found = offset_log.query_id(generation.checkpoint)
    return [generation.info.transaction_id, *([] if found is None else [found])]


def _declaration(loaded: LoadedPipeline, generation: str) -> LoadedPipeline:
    """By what a generation runs: the pipeline's own file if it is the newest one."""
    own = newest(loaded) == generation and loaded.kept is None
    return loaded if own else load_pipeline(kept_file(loaded, generation))


def _clean(loaded: LoadedPipeline) -> None:
    """Remove generations that served, beyond those to be kept."""
    serving = read_serving(loaded)
    surplus = len(serving.before) - loaded.pipeline.generations.keep
    # The newest one is what the pipeline's own file is about, even after a rollback.
    gone = [each for each in serving.before if each.generation != newest(loaded)][: max(surplus, 0)]
    if not gone:
        return
    kept = [each for each in serving.before if each not in gone]
    write_serving(loaded, serving.model_copy(update={"before": kept}))
    for each in gone:
        remove(loaded, each.generation)
