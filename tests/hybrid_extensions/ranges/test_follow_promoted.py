"""A range of a table that was followed as a candidate's is read from where that table is now."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from hybrid_extensions.ranges.followed import follow as following
from hybrid_extensions.ranges.range_scope import RangeScope
from hybrid_extensions.ranges.table.replace_range import Replaced, Replacement
from sources.config.loader import LoadedPipeline
from sources.files.tables.replaced_range import ReplacedRange
from sources.planning.context import PipelineContext
from sources.planning.event_windows import Interval
from tests.hybrid_extensions.upstream.test_promoted_together import AT, Row


def test_the_generation_that_was_followed_is_no_field_of_the_recomputation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, seen = Row(tmp_path, monkeypatch, "g2"), list[LoadedPipeline]()
    row.promote()
    context = PipelineContext.require(row.second.loaded)
    position = row.follower.position
    assert position is not None
    monkeypatch.setattr(following, "compute_side", lambda side, _: seen.append(side))
    monkeypatch.setattr(Replacement, "run", lambda *_: Replaced(0, 0, 0))
    until = AT + timedelta(days=1)
    pending = following._Pending(position, ReplacedRange(column="at", since=AT, until=until))
    scope = RangeScope(AT, until, None, Interval(AT, until))
    following._follow(context, pending, scope, lambda _: None)
    [side] = seen
    [source] = side.pipeline.bounded_files
    assert (source.patterns, source.version) == ([row.first.loaded.target.url], position.version)
