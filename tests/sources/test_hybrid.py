"""The chain and its hand-overs, held to what Flink's HybridSource promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sources.common.positions import EndPosition, PartitionStart, StartPosition, TopicPartition
from sources.errors import InputError, SeamError, StateError
from sources.hybrid import (
    Boundedness,
    HybridSource,
    HybridSourceBuilder,
    SourceSwitchContext,
    SwitchState,
)
from sources.state.generation import Generation, open_generation
from sources.storage.folder import Folder
from tests.sources.kafka.model_log import ModelLog


@dataclass(frozen=True)
class Stub:
    name: str
    boundedness: Boundedness


def bounded(name: str) -> Stub:
    return Stub(name, Boundedness.BOUNDED)


LOG = ModelLog({TopicPartition("t", 0): []})
LIVE = Stub("live", Boundedness.CONTINUOUS_UNBOUNDED)


def end(source: str, time_ms: int = 10) -> EndPosition:
    return EndPosition(
        source=source,
        event_time_ms=time_ms,
        complete_through_ms=time_ms,
        event_times="exact",
        splits=1,
        rows=1,
    )


def start(offset: int, source: str = "live") -> StartPosition:
    part = PartitionStart(start=offset, log_start=0, log_end=100, reason="test")
    partitions = {TopicPartition("t", 0): part}
    return StartPosition(source=source, evidence="fixed", time_ms=None, partitions=partitions)


def chain_of(*sources: Stub) -> HybridSource[Stub]:
    builder: HybridSourceBuilder[Stub] = HybridSource.builder()
    for source in sources:
        builder.add_source(source)
    return builder.build()


def generation(folder: Path) -> Generation:
    made = open_generation(Folder(folder / "p"), {}, create=True)
    assert made is not None
    return made


def never(_: SourceSwitchContext) -> StartPosition:
    pytest.fail("the factory ran")


def documents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_boundedness_is_that_of_the_last_source() -> None:
    assert chain_of(bounded("a"), bounded("b")).boundedness is Boundedness.BOUNDED
    chain = chain_of(bounded("a"), LIVE)
    assert chain.boundedness is Boundedness.CONTINUOUS_UNBOUNDED


def test_an_empty_chain_is_refused() -> None:
    with pytest.raises(InputError, match="no sources"):
        chain_of()


@pytest.mark.parametrize(
    "sources",
    [
        pytest.param([LIVE, bounded("a")], id="first"),
        pytest.param([bounded("a"), LIVE, bounded("b")], id="in the middle"),
    ],
)
def test_an_unbounded_source_before_the_last_is_refused(sources: list[Stub]) -> None:
    with pytest.raises(InputError, match="`live` has no end but is not the last"):
        chain_of(*sources)


def test_two_sources_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="Two sources are named `a`"):
        chain_of(bounded("a"), bounded("a"))


def test_sources_take_their_turns_strictly_in_order(tmp_path: Path) -> None:
    chain = chain_of(bounded("a"), bounded("b"), LIVE)
    enumerator = SwitchState(chain, generation(tmp_path))
    with pytest.raises(
        StateError, match="`b` can't start: source `a`, which comes before it, has not finished"
    ):
        enumerator.finish(end("b"))
    enumerator.finish(end("a"))
    with pytest.raises(StateError, match="`live` can't start: source `b`"):
        enumerator.switch("live", lambda _: start(1), LOG)
    enumerator.finish(end("b"))
    assert enumerator.switch("live", lambda _: start(1), LOG) == start(1)


def test_the_factory_does_not_run_before_all_sources_before_have_finished(tmp_path: Path) -> None:
    chain = chain_of(bounded("a"), bounded("b"), LIVE)
    enumerator = SwitchState(chain, generation(tmp_path))
    enumerator.finish(end("a"))
    with pytest.raises(StateError, match="`b`, which comes before it, has not finished"):
        enumerator.switch("live", never, LOG)
    assert enumerator.start_of("live") is None


def test_the_factory_is_given_the_end_of_the_source_before(tmp_path: Path) -> None:
    chain = chain_of(bounded("a"), bounded("b"), LIVE)
    enumerator = SwitchState(chain, generation(tmp_path))
    enumerator.finish(end("a", 1))
    enumerator.finish(end("b", 2))
    seen: list[SourceSwitchContext] = []

    def factory(context: SourceSwitchContext) -> StartPosition:
        seen.append(context)
        return start(7)

    enumerator.switch("live", factory, LOG)
    assert [context.previous for context in seen] == [end("b", 2)]


def test_the_factory_runs_once_even_after_a_restart(tmp_path: Path) -> None:
    chain = chain_of(bounded("a"), LIVE)
    first = SwitchState(chain, generation(tmp_path))
    first.finish(end("a"))
    first.switch("live", lambda _: start(1), LOG)
    restored = SwitchState(chain, generation(tmp_path))
    assert restored.switch("live", never, LOG) == start(1)


def test_an_end_position_is_written_once(tmp_path: Path) -> None:
    chain = chain_of(bounded("a"))
    enumerator = SwitchState(chain, generation(tmp_path))
    enumerator.finish(end("a", 1))
    assert enumerator.finish(end("a", 2)) == end("a", 1)
    assert enumerator.end_of("a") == end("a", 1)


def test_a_factory_that_returns_nonsense_is_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    chain = chain_of(bounded("a"), LIVE)
    enumerator = SwitchState(chain, generation(tmp_path))
    enumerator.finish(end("a"))
    with pytest.raises(SeamError, match="What was decided for `live` is no start of this source"):
        enumerator.switch("live", lambda _: 17, LOG)  # type: ignore[arg-type,return-value]
    with pytest.raises(SeamError, match="for `live` is no start of this source"):
        enumerator.switch("live", lambda _: start(1, "other"), LOG)
    assert enumerator.start_of("live") is None


def test_a_source_without_a_hand_over_can_not_start(tmp_path: Path) -> None:
    chain = chain_of(bounded("a"), LIVE)
    enumerator = SwitchState(chain, generation(tmp_path))
    with pytest.raises(StateError, match="`live` has no start offsets yet"):
        enumerator.require_start("live")


def test_a_factory_that_fails_leaves_nothing_and_may_run_again(tmp_path: Path) -> None:
    enumerator = SwitchState(chain_of(bounded("a"), LIVE), generation(tmp_path))
    enumerator.finish(end("a"))

    def fails(_: SourceSwitchContext) -> StartPosition:
        raise KeyError("catalogue")

    with pytest.raises(KeyError, match="catalogue"):
        enumerator.switch("live", fails, LOG)
    assert enumerator.start_of("live") is None
    assert enumerator.switch("live", lambda _: start(3), LOG) == start(3)


def test_of_two_hand_overs_at_once_one_wins_and_both_are_told_so(tmp_path: Path) -> None:
    chain = chain_of(bounded("a"), LIVE)
    slow = SwitchState(chain, generation(tmp_path))
    fast = SwitchState(chain, generation(tmp_path))
    slow.finish(end("a"))

    def overtaken(_: SourceSwitchContext) -> StartPosition:
        assert fast.switch("live", lambda _: start(2), LOG) == start(2)
        return start(1)

    assert slow.switch("live", overtaken, LOG) == start(2)


STEPS: list[Callable[[SwitchState], object]] = [
    lambda enumerator: enumerator.finish(end("a", 1)),
    lambda enumerator: enumerator.finish(end("b", 2)),
    lambda enumerator: enumerator.switch("live", lambda _: start(7), LOG),
]


@pytest.mark.parametrize("done", range(len(STEPS) + 1))
def test_whenever_it_is_restored_the_chain_goes_on_where_it_was(tmp_path: Path, done: int) -> None:
    chain = chain_of(bounded("a"), bounded("b"), LIVE)
    before = SwitchState(chain, generation(tmp_path))
    for step in STEPS[:done]:
        step(before)
    restored = SwitchState(chain, generation(tmp_path))
    finished = [name for name in ("a", "b", "live") if restored.end_of(name) is not None]
    assert finished == ["a", "b"][:done]
    assert (restored.start_of("live") is None) == (done < len(STEPS))
    for step in STEPS[done:]:
        step(restored)
    assert [restored.end_of("a"), restored.end_of("b")] == [end("a", 1), end("b", 2)]
    assert restored.require_start("live") == start(7)


@pytest.mark.parametrize("done", range(len(STEPS) + 1))
def test_a_restart_that_does_nothing_changes_nothing(tmp_path: Path, done: int) -> None:
    chain = chain_of(bounded("a"), bounded("b"), LIVE)
    before = SwitchState(chain, generation(tmp_path))
    for step in STEPS[:done]:
        step(before)
    written = documents(tmp_path)
    restored = SwitchState(chain, generation(tmp_path))
    for name in ("a", "b", "live"):
        assert restored.end_of(name) == before.end_of(name)
        assert restored.start_of(name) == before.start_of(name)
    assert documents(tmp_path) == written


def test_a_position_is_not_read_before_its_source_is_asked_for(tmp_path: Path) -> None:
    chain = chain_of(bounded("a"), LIVE)
    kept = generation(tmp_path)
    SwitchState(chain, kept).finish(end("a"))
    kept.path("positions/live-start.json").write_text('{"version": 99}')
    restored = SwitchState(chain, kept)
    assert restored.end_of("a") == end("a")
    with pytest.raises(StateError, match=r"/live-start\.json can't be read: it has version 99"):
        restored.switch("live", never, LOG)
