"""The chain on a terminal: the same steps as the assets, with progress bars on stderr."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from orchestration import chain, snapshots
from orchestration.supervision import controls
from sources.common.positions import iso
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.hand_over import hand_over, require_sound
from sources.hybrid import Boundedness
from spark_jobs.launch.runs import last_lines
from spark_jobs.run_state.heartbeat import Heartbeat, describe


def step(loaded: LoadedPipeline, name: str) -> tuple[dict[str, Any], str]:
    """Do one step of a chain, as its asset would; what was done before is not done again.

    Returns:
        What came of it, as a document and in words.

    Raises:
        InputError: There is no such step; or as :mod:`orchestration.chain`.
    """
    found = {each.name: each for each in chain.steps(loaded)}
    if name not in found:
        message = f"Pipeline `{loaded.pipeline.name}` has no step `{name}`."
        raise InputError(message, f"Its steps are {', '.join(found)}.")
    if found[name].kind == "snapshot":
        return snapshot(loaded, lambda _: None)
    if (source_name := found[name].source) is None:
        made = chain.plan(loaded)
        return made.model_dump(mode="json"), "Planned."
    source = loaded.pipeline.source(source_name)
    if found[name].kind == "start":
        assert isinstance(source, KafkaSource)
        ledger = hand_over(loaded, source)
        if not chain.reached(loaded, source):
            require_sound(loaded, source)
        return ledger.model_dump(mode="json"), "The hand-over is made, and passes its checks."
    if found[name].kind == "bounded":
        end = chain.run_bounded(loaded, source)
        return end.model_dump(mode="json"), f"Read to its end: event time {iso(end.event_time_ms)}."
    beat = chain.go_live(loaded, source)
    return beat.model_dump(mode="json"), f"Live: {describe(beat)}."


def snapshot(loaded: LoadedPipeline, report: Callable[[str], None]) -> tuple[dict[str, Any], str]:
    """Take the snapshots; what there is, as a document and in words."""
    taken = snapshots.take(loaded, report)
    document = {"snapshots": [each.document for each in taken]}
    return document, "\n".join(each.text for each in taken)


def run(loaded: LoadedPipeline, *, stop_when_caught_up: bool) -> None:
    """Run all steps in order; see :mod:`orchestration.chain` for what each raises."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        if snapshots.declared(loaded):
            taking = bars.add_task("snapshot", total=1)
            snapshots.take(loaded, lambda text: bars.update(taking, description=text))
            bars.update(taking, description="snapshot", completed=1)
        bar = bars.add_task("plan", total=1)
        chain.plan(loaded)
        bars.update(bar, completed=1)
        for source in loaded.pipeline.sources:
            if isinstance(source, KafkaSource):
                hand_over(loaded, source)
            if source.boundedness is Boundedness.BOUNDED:
                _bounded(bars, loaded, source)
            else:
                _live(bars, loaded, source, stop_when_caught_up=stop_when_caught_up)


def logs(loaded: LoadedPipeline, lines: int) -> tuple[str, str]:
    """The source that was launched last, and the last lines that its driver printed.

    Raises:
        InputError: Nothing was launched yet.
    """
    generation = loaded.open_generation(create=False)
    found = None if generation is None else last_lines(generation, lines)
    if found is None:
        message = f"No run of pipeline `{loaded.pipeline.name}` was launched yet."
        raise InputError(message, "`hybrid run` launches one.")
    return found


def drain(loaded: LoadedPipeline, within: timedelta) -> None:
    """Drain the live run and show what is left."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    most = 0
    with Progress(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task("drain", total=None)

        def show(left: int) -> None:
            nonlocal most
            most = max(most, left)
            text = f"drain: {left:,} left"
            bars.update(bar, description=text, total=most or 1, completed=(most or 1) - left)

        controls.drain(loaded, within, show)


def _bounded(bars: Progress, loaded: LoadedPipeline, source: FileSource | KafkaSource) -> None:
    bar = bars.add_task(source.name, total=None)

    def show(beat: Heartbeat) -> None:
        text = describe(beat) if beat.batch_id is not None else f"{source.name}: {beat.state}"
        bars.update(bar, description=text, total=beat.splits_total, completed=beat.splits_done or 0)

    end = chain.run_bounded(loaded, source, on_beat=show, go_on=True)
    bars.update(bar, description=source.name, total=end.splits, completed=end.splits)


def _live(
    bars: Progress,
    loaded: LoadedPipeline,
    source: FileSource | KafkaSource,
    *,
    stop_when_caught_up: bool,
) -> None:
    bar = bars.add_task(f"{source.name}: starting", total=None)
    unit = "records" if isinstance(source, KafkaSource) else "files"

    def show_lag(behind: int) -> None:
        bars.update(bar, description=f"{source.name}: {behind:,} {unit} behind")

    chain.go_live(loaded, source)
    bars.update(bar, description=f"{source.name}: live")
    if stop_when_caught_up:
        chain.wait_until_caught_up(loaded, source, show_lag)
        chain.stop(loaded)
    bars.update(bar, total=1, completed=1)
