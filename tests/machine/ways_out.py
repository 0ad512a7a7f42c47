"""Following the ways out that refusals name, until the table is right."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from hybrid_extensions.generations import lifecycle
from hybrid_extensions.generations.switch import promotion
from orchestration.chain import ChainRun, run_chain
from sources import generations, serving
from sources.errors import HybridError
from tests.machine.invariants import WrongError, require_way_out

if TYPE_CHECKING:
    from tests.machine.people import People

HOPS = 20
TRIES = 2


def lead_out(people: People) -> None:
    """From wherever the machine is, follow hints until the serving table is right.

    Raises:
        WrongError: They lead in a circle, or to a table that is wrong.
    """
    world = people.world
    if world.kept_by_nobody():
        # What no file and no topic holds can't be read by anybody: people have a copy.
        world.archive()
    trail: list[str] = []
    tried: Counter[str] = Counter()
    for _ in range(HOPS):
        try:
            loaded = world.load()
            promotion.finish(loaded)
            run_chain(ChainRun(loaded, rest_requested=True))
            people.read_on()
            if serving.candidate_name(loaded) is not None:
                promotion.promote(loaded)
                people.read_on()
        except HybridError as error:
            require_way_out(error)
            trail.append(f"{type(error).__name__}: {error}")
            if not _follow(people, error, tried, trail):
                break
            continue
        people.is_right()
        people.counts["ways out of refusals"] += len(trail)
        return
    message = "no way out:\n  {}".format("\n  ".join(trail))
    raise WrongError(message)


# What a hint says, and what people then do; the first of them that was not tried yet.
WAYS: list[tuple[str, str]] = [
    (r"End the process that holds", "end_process"),
    (r"outside: (drop|quarantine)|event_time\.outside", "leave_out"),
    (r"write it[^`]*`\{", "write"),
    (r"copy the pipeline's file", "copy_definition"),
    (r"TO VERSION AS OF \d+", "restore_table"),
    (r"on_gap: extend", "extend"),
    (r"on_gap: accept", "accept"),
    # Before what corrects a declaration: nothing else is left without a backup.
    (r"Without one, declare another `state`", "afresh"),
    (r"[Uu]ndo|Correct |`sink\.path`|[Dd]eclare|approve", "restore_declaration"),
    (r"generation abort", "abort"),
    (r"generation finish", "finish"),
    (r"generation discard", "discard"),
    (r"generation new|hybrid rerun", "new"),
    (r"generation rollback", "rollback"),
    (r"move its folder away", "move"),
    (r"another `state`", "afresh"),
    (r"hybrid run|hybrid resume|[Rr]epeat|again|[Ww]ait", "repeat"),
]


def _follow(people: People, error: HybridError, tried: Counter[str], trail: list[str]) -> bool:
    """Do one thing that the error names, which was not tried yet; return whether there was one."""
    text = f"{error.message} {error.hint}"
    for pattern, name in WAYS:
        # Times and names of files may differ from one attempt to the next.
        key = f"{name}: {re.sub('[0-9]+', '', text)[:120]}"
        # What was refused at first may be the way once something else is out of its way.
        if tried[key] == TRIES or not re.search(pattern, text):
            continue
        tried[key] += 1
        try:
            _do(people, name, error)
        except HybridError as refused:
            require_way_out(refused)
            trail.append(f"{name} refused: {refused}")
            return _follow(people, refused, tried, trail) or True
        else:
            trail.append(f"followed: {name}")
        return True
    return False


def _do(people: People, name: str, error: HybridError) -> None:
    load = people.world.load
    ways: dict[str, Callable[[], Any]] = {
        "restore_declaration": people.restore_declaration,
        "abort": lambda: getattr(promotion, "abort")(load()),  # noqa: B009
        "finish": lambda: promotion.finish(load()),
        "discard": lambda: lifecycle.discard(load()),
        "new": lambda: generations.begin(load()),
        "rollback": lambda: promotion.roll_back(load()),
        "extend": lambda: _cover(people),
        "leave_out": lambda: people.keep("event_time", {"column": "at", "outside": "drop"}),
        "write": lambda: _write(error),
        "copy_definition": lambda: _copy_definition(people, error),
        "restore_table": lambda: _restore_table(error),
        "accept": lambda: _accept(people),
        "move": lambda: shutil.rmtree(str(error.fields.get("table", "")), ignore_errors=True),
        "afresh": lambda: _afresh(people),
        # The record of its launch was deleted under a running driver.
        "end_process": people.fleet.stop_all,
        "repeat": lambda: None,
    }
    ways[name]()


def _write(error: HybridError) -> None:
    """Write a file as the hint spells it."""
    found = re.search(r"write it[^`]*`(\{.*?\})`", error.hint)
    assert found is not None
    Path(str(error.fields["file"])).write_text(found[1])


def _copy_definition(people: People, error: HybridError) -> None:
    """Copy the pipeline's file and its transform to where a generation keeps them."""
    people.restore_declaration()
    there = Path(str(error.fields["file"])).parent
    there.mkdir(exist_ok=True)
    for name in ("m.yaml", "transforms.py"):
        shutil.copy(people.world.folder / name, there)


def _restore_table(error: HybridError) -> None:
    """Restore the table's version that the hint names; one whose files are gone stays as it is."""
    found = re.search(r"TO VERSION AS OF (\d+)", error.hint)
    assert found is not None
    with suppress(DeltaError):
        DeltaTable(str(error.fields["table"])).restore(int(found[1]))


def _cover(people: People) -> None:
    """Let files hold what the topic no longer does, and let history read them."""
    people.world.archive()
    people.keep("sources.1.on_gap", "extend")


def _accept(people: People) -> None:
    """Accept the gap, once files hold all that lies in it, and plan them."""
    people.world.archive()
    people.keep("sources.1.on_gap", "accept")
    _afresh(people)


def _afresh(people: People) -> None:
    """Another state and another table, as some hints say."""
    people.fleet.stop_all()
    number = people.counts["started afresh"] = people.counts["started afresh"] + 1
    people.keep("state", f"state-{number}")
    people.keep("sink.path", f"out-{number}")
