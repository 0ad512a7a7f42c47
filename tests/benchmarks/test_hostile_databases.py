"""Kills of a hostile run come before and after the table is whole, not all of them before it."""

from __future__ import annotations

from functools import partial

from benchmarks.hostile_databases import _SlowReader, _SpreadKiller
from examples.killer import Killed
from tests.services.processes import wait_for


class _Counting(_SpreadKiller):
    """Kills nothing."""

    def _kill_driver(self) -> None:
        self.done.drivers += 1

    def _crash(self) -> None:
        self.done.crashes += 1


def test_kills_go_on_as_chunks_are_read_and_half_are_left_for_the_whole_table() -> None:
    reader = _SlowReader(1, 0.0)
    killer = _Counting(reader, None, [], 1, Killed(6, 6), (0.0, 0.01))
    killer.start()
    for share, kills in ((0.0, 1), (0.5, 4), (1.0, 6)):
        reader.share = share
        wait_for(partial(_has_killed, killer, kills), lambda: str(killer.done), 60)
    killer.table_is_whole()
    killer.finish()
    assert killer.before is not None
    assert (killer.before.all, killer.done.all) == (6, 12)


def _has_killed(killer: _Counting, kills: int) -> bool:
    return killer.done.all == kills
