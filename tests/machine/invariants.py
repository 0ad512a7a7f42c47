"""What has to hold after every step, whatever people did."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from orchestration.comparison.report import AuditReport
from orchestration.supervision.status import Status
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.kept_definitions import declaration_of
from sources.serving import target_of
from tests.machine.world import World

# What a launch leaves behind when it is refused is no decision: its lock, its log, its record.
_TRANSIENT = re.compile(r"/(run|definition)/|\.lock$|/nothing/|/seam/")
# A command, a field of the declaration, or something that people do by hand.
_WAY_OUT = re.compile(
    r"`hybrid |`[a-z_.]+(:|`)|[Rr]estore|[Uu]ndo|[Rr]epeat|[Ww]ait|run the same command|again",
)


class WrongError(AssertionError):
    """The invariant does not hold."""


def fingerprint(folder: Path) -> dict[str, str]:
    """Return a digest of each file of the state and of all tables."""
    found = {}
    for root in (folder / "state", *folder.glob("out*")):
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_file() and not _TRANSIENT.search(f"/{name}"):
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def require_nothing_left_behind(
    before: dict[str, str], after: dict[str, str], refusal: HybridError
) -> None:
    """What is refused left nothing behind."""
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    if changed:
        message = f"refused, and yet it changed {changed}: {refusal}"
        raise WrongError(message)


def require_way_out(refusal: HybridError) -> None:
    """Every refusal says what to do now."""
    if not _WAY_OUT.search(f"{refusal.message} {refusal.hint}"):
        message = f"a refusal without a way out: {refusal!r} {refusal}"
        raise WrongError(message)


def require_right_if_green(world: World, loaded: LoadedPipeline, found: Status) -> int:
    """A live run that is healthy and has nothing left to read has written every row once.

    Returns:
        Number of rows that were compared.
    """
    rows = 0
    for each in filter(None, (found, found.served_by)):
        last = each.sources[-1]
        is_green = each.live is not None and each.live.health == "healthy" and each.healthy
        if not is_green or last.lag != 0:
            continue
        # One that serves goes by the declaration that it was started with.
        declared = declaration_of(loaded, each.generation or "")
        wrong = world.wrong(target_of(declared, each.generation).url)
        rows += len(world.rows)
        if wrong:
            message = f"healthy, nothing left to read, and yet {each.generation} lacks: {wrong}"
            raise WrongError(message)
    return rows


def require_right_if_proved(world: World, loaded: LoadedPipeline, report: AuditReport) -> None:
    """The audit agrees with the computation over all raw input, one way and the other."""
    wrong = world.wrong(target_of(loaded).url)
    if report.ok and wrong:
        message = f"the audit says ok, and yet: {wrong}; {report}"
        raise WrongError(message)
    counted = report.missing + report.duplicated + report.different + report.unexpected
    if counted and not wrong and not world.kept_by_nobody():
        message = f"the table is right, and yet the audit counts {counted}: {report}"
        raise WrongError(message)
