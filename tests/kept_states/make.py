"""Make the kept states of this version: ``python -m tests.kept_states.make [STATE …]``.

Every pipeline runs as people run it, by drivers of its own on this machine. The topics of all
states are in one broker: where only some states are made again, in the one that was kept. With
another Spark than the default, as in ``.venv-spark4.1``, they are states of that Spark.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from confluent_kafka.admin import AdminClient

from hybrid_extensions.generations.lifecycle import rerun
from hybrid_extensions.generations.switch import promotion
from hybrid_extensions.servers.broker import LocalBroker, create_topic
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import bounded_run, chain_plan, stopping
from orchestration.supervision import controls
from sources.common.positions import EndPosition
from sources.config.loader import load_pipeline
from sources.errors import RunError
from sources.generations import begin
from sources.kept_definitions import in_service
from sources.planning.context import PipelineContext
from sources.planning.plan import Plan
from sources.serving import pending_switch
from sources.state.generation import Generation
from spark_jobs.checkpoint.offset_log import last_committed, last_planned
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.run_state.driver_lock import is_held, is_launched
from spark_jobs.run_state.heartbeat import Heartbeat
from tests.e2e.case import start_live
from tests.kept_states import pipelines
from tests.kept_states.archives import (
    BROKER,
    SERVERS,
    Kept,
    locked,
    made_here,
    pack,
    this_version,
    unpack,
)
from tests.kept_states.documents import documents, write_samples
from tests.kept_states.pipelines import (
    DOUBLED,
    DOUBLED_SQL,
    PARTITIONS,
    TOPIC,
    produce,
    produce_changes,
    produce_events,
    topic_of,
)
from tests.kept_states.samples import samples
from tests.services.processes import wait_for

DEADLINE_S = 600
PERSON = "Ada"
HOST = "kept-states.example"
"""Name that the archives have for the machine where they were made."""


def live(servers: str, folder: Path) -> None:
    """A stream that has passed the seam; its driver was killed while it waited for records."""
    path = pipelines.events("live", folder, "json")
    produce_events(servers, "live", TOPIC)
    loaded = load_pipeline(path)
    start_live(loaded)
    wait_until_caught_up(PipelineContext.require(loaded))
    produce_events(servers, "live", range(300, 330))
    wait_until_caught_up(PipelineContext.require(loaded))
    kill(loaded.require_generation())


def paused(servers: str, folder: Path) -> None:
    """A stream that a person paused; records wait, and two that can't be read were set aside."""
    path = pipelines.events("paused", folder, "parquet", {"on_bad_record": "quarantine"})
    produce_events(servers, "paused", TOPIC)
    produce(servers, "paused", [(300, "{"), (301, '{"id": "x"}')])
    loaded = load_pipeline(path)
    start_live(loaded)
    wait_until_caught_up(PipelineContext.require(loaded))
    controls.pause(loaded, "the upgrade", PERSON)
    produce_events(servers, "paused", range(302, 320))


def mid_history(servers: str, folder: Path) -> None:
    """History of which the third of four micro-batches was begun when the driver was killed."""
    path = pipelines.events("mid_history", folder, "parquet", transform="transforms:held")
    produce_events(servers, "mid_history", TOPIC)
    loaded = load_pipeline(path)
    hold = folder / "hold"
    hold.write_text("100")
    chain_plan.plan(loaded)
    generation = loaded.require_generation()

    def kill_in_third(_: Heartbeat) -> None:
        if last_planned(generation.checkpoint) == 2:
            kill(generation)

    context, history = PipelineContext.require(loaded), loaded.pipeline.file_source("history")
    with suppress(RunError):
        bounded_run.run_bounded(context, history, kill_in_third, rest_requested=True)
    hold.unlink()
    assert is_in_batch(generation)
    assert last_committed(generation.checkpoint) == 1


def half_promoted(servers: str, folder: Path) -> None:
    """A second generation, and a promotion that was killed between its commit and its record."""
    audit = {"sql": "audit.sql"}
    path = pipelines.events("half_promoted", folder, "parquet", audit=audit)
    (folder / "audit.sql").write_text(DOUBLED_SQL)
    produce_events(servers, "half_promoted", TOPIC)
    loaded = load_pipeline(path)
    start_live(loaded)
    wait_until_caught_up(PipelineContext.require(loaded))
    (folder / "transforms.py").write_text(DOUBLED)
    loaded = load_pipeline(path)
    begin(loaded, PERSON)
    rerun(loaded, promote=False, rows_at_least=1.0, say=print, by=PERSON)
    for each in (loaded, in_service(loaded)[1]):
        wait_until_caught_up(PipelineContext.require(each))
    child = multiprocessing.get_context("spawn").Process(target=promote_and_die, args=(path,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert pending_switch(loaded) is not None


def promote_and_die(path: Path) -> None:
    """Promote the newest generation, and end like a killed process once readers see its rows."""

    def say(step: str) -> None:
        if "readers see g2" in step:
            os.kill(os.getpid(), signal.SIGKILL)

    promotion.promote(load_pipeline(path), by=PERSON, say=say)


def windows(servers: str, folder: Path) -> None:
    """Windows over the seam, in a live micro-batch of which the driver was killed.

    The seam is not passed yet, and its filter is in the query.
    """
    path = pipelines.windows("windows", folder)
    produce_events(servers, "windows", TOPIC)
    loaded = load_pipeline(path)
    chain_plan.plan(loaded)
    context = PipelineContext.require(loaded)
    bounded_run.run_bounded(context, loaded.pipeline.file_source("history"))
    hold = folder / "hold"
    hold.write_text("240")
    start_live(loaded)
    generation = loaded.require_generation()

    def waits() -> bool:
        return is_in_batch(generation) and records_planned(generation) > 240 - TOPIC[0] + PARTITIONS

    wait_for(waits, "the micro-batch that waits", DEADLINE_S)
    kill(generation)
    hold.unlink()
    assert is_in_batch(generation)


def records_planned(generation: Generation) -> int:
    """How many records of the topic the last micro-batch and those before it read."""
    path = generation.checkpoint.path(f"offsets/{last_planned(generation.checkpoint)}")
    (offsets,) = json.loads(path.read_text().splitlines()[-1]).values()
    return sum(offsets.values())


def captured(servers: str, folder: Path) -> None:
    """A captured table, stopped; rows were deleted, and changes came in another order."""
    path = pipelines.captured("captured", folder)
    changes = [(key, at, f"c{key}-{at}") for at, key in enumerate([*range(30), *range(10)], 1)]
    gone = [(3, 50, None), (25, 51, None), (7, 52, None), (7, 53, "again")]
    late = [(4, 5, "too late"), (3, 49, "too late")]
    produce_changes(servers, "captured", [*changes, *gone, *late])
    loaded = load_pipeline(path)
    start_live(loaded)
    wait_until_caught_up(PipelineContext.require(loaded))
    stopping.stop(loaded, PERSON)


STATES: dict[str, Callable[[str, Path], None]] = {
    each.__name__: each for each in (live, paused, mid_history, half_promoted, windows, captured)
}


def kill(generation: Generation) -> None:
    """Kill a generation's driver with its JVM; returns once nothing holds its locks."""
    launch = last_launch(generation)
    assert launch is not None
    assert launch.group is not None
    os.killpg(launch.group, signal.SIGKILL)
    wait_for(lambda: not is_held(generation) and not is_launched(generation), "the driver's end")


def is_in_batch(generation: Generation) -> bool:
    """Whether a micro-batch was begun and not committed."""
    return last_planned(generation.checkpoint) != last_committed(generation.checkpoint)


def make(version: str, names: Sequence[str]) -> None:
    """Make states of this version, the archive of their broker, and the other documents."""
    with tempfile.TemporaryDirectory() as scratch:
        broker = Kept(version, BROKER)
        if set(names) != set(STATES) and broker.archive.exists():
            unpack(broker, Path(scratch) / "data")
        with LocalBroker(Path(scratch)) as running:
            os.environ[SERVERS] = running.bootstrap_servers
            for name in names:
                make_state(Kept(version, name), running.bootstrap_servers)
        pack(broker, Path(scratch) / "data", lambda name: name.endswith(".lock"))
    if version == this_version():
        keep_samples(version)


def make_state(kept: Kept, servers: str) -> None:
    """Make a state, with a topic that nothing else has been in."""
    admin, topic = AdminClient({"bootstrap.servers": servers}), topic_of(kept.name)
    if topic in admin.list_topics().topics:
        admin.delete_topics([topic])[topic].result()
        wait_for(lambda: topic not in admin.list_topics().topics, "the topic's end")
    create_topic(servers, topic, PARTITIONS, {"retention.ms": "-1"})
    with locked(kept) as folder:
        STATES[kept.name](servers, folder)
        pack(kept, folder, _is_left_out, _of_no_machine)


def keep_samples(version: str) -> None:
    """Keep a document of each kind that none of the states has."""
    kinds, found = set(), {}
    for name in STATES:
        for _, kind, content in documents(Kept(version, name)):
            assert kind is not None
            kinds.add(kind)
            found[name, kind] = content
    plan, end = (kind.parse(found["live", kind]) for kind in (Plan, EndPosition))
    assert isinstance(plan, Plan)
    assert isinstance(end, EndPosition)
    write_samples(version, [each for each in samples(plan, end) if type(each) not in kinds])


def _is_left_out(name: str) -> bool:
    """Leave out what drivers printed, with paths of this machine, and what Python compiled."""
    return name.endswith((".log", ".pyc"))


def _of_no_machine(name: str, content: bytes) -> bytes:
    """Give a document's host another name, so that a resume is on another machine anywhere."""
    if not name.endswith(".json"):
        return content
    own = rf'("host":\s*)"{re.escape(socket.gethostname())}"'
    return re.sub(own.encode(), rf'\1"{HOST}"'.encode(), content)


if __name__ == "__main__":
    make(made_here(), sys.argv[1:] or list(STATES))
