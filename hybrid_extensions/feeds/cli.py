"""Command `hybrid feed`, which feeds second sinks from the commits of the table."""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli import panels
from orchestration.cli.interrupts import sigterm_interrupts
from orchestration.cli.output import AsJson, PipelineFile, answer, load, tell

if TYPE_CHECKING:
    from hybrid_extensions.feeds.declare import AnyFeed
    from sources.config.loader import LoadedPipeline

app = typer.Typer()
_GRACE_S = 20.0


@app.command(rich_help_panel=panels.MORE)
def feed(  # noqa: PLR0913, PLR0917 - each is an option
    pipeline: PipelineFile,
    name: Annotated[
        list[str] | None, typer.Option(help="Feed to follow; may be repeated. All by default.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Deliver what there is now, and return.")
    ] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Load the whole table again, and return.")
    ] = False,
    compare: Annotated[
        int | None,
        typer.Option(
            min=1, help="Compare up to so many rows, chosen at random; 1 if the sink differs."
        ),
    ] = None,
    served: Annotated[
        bool,
        typer.Option(
            "--served",
            help="Compare what feeds with `keep` served with what training takes; 1 if more "
            "differs than is declared.",
        ),
    ] = False,
    days: Annotated[
        int | None,
        typer.Option(min=1, help="With --served: days before now; all that are kept by default."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="With --served: seed of the look-ups at random times.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Feed the declared second sinks from the table's commits, until Ctrl-C or SIGTERM.

    A delivery that fails is tried again. With `--once` or `--reload` its error ends the command.
    """
    with answer(as_json) as show, sigterm_interrupts():
        from hybrid_extensions.feeds.delivery_loop import deliver_once, follow, in_words

        loaded = load(pipeline)
        feeds = _chosen(loaded, name or [])
        if compare is not None:
            show(*_comparison(loaded, feeds, compare))
            return
        if served:
            # Without names those that can be compared, if there is one.
            kept = [each for each in feeds if name or each.keep is not None]
            show(*_served(loaded, kept or feeds, days, seed))
            return
        if once or reload:
            done = [(each, deliver_once(loaded, each, reload=reload)) for each in feeds]
            document = {each.name: outcome._asdict() for each, outcome in done}
            text = "\n".join(in_words(each, outcome) for each, outcome in done)
            show({"ok": True, "feeds": document}, text)
            return
        stop = threading.Event()
        threads = follow(loaded, feeds, stop, tell)
        try:
            # A delivery that is under way is completed, unless it takes too long.
            stop.wait()
        finally:
            stop.set()
            for each in threads:
                each.join(_GRACE_S)


def _comparison(
    loaded: LoadedPipeline, feeds: list[AnyFeed], sample: int
) -> tuple[dict[str, Any], str]:
    """Return the answer of a comparison of some feeds: its document, and its text."""
    from hybrid_extensions.feeds.delivery_loop import compare, compared_in_words

    found = {each.name: compare(loaded, each, sample) for each in feeds}
    documents = {
        name: {**asdict(each), "share": each.share, "agrees": each.agrees}
        for name, each in found.items()
    }
    text = "\n".join(compared_in_words(each, found[each.name]) for each in feeds)
    good = all(each.agrees for each in found.values())
    return {"ok": good, "feeds": documents}, text


def _served(
    loaded: LoadedPipeline, feeds: list[AnyFeed], days: int | None, seed: int
) -> tuple[dict[str, Any], str]:
    """Return the answer of comparisons with training: its document, and its text."""
    from hybrid_extensions.feeds.kept.comparison import compare_served, served_in_words

    found = {each.name: compare_served(loaded, each, days=days, seed=seed) for each in feeds}
    documents = {
        name: {
            **asdict(each),
            "compared": each.compared,
            "different": each.different,
            "share": each.share,
            "within": each.is_within,
        }
        for name, each in found.items()
    }
    text = "\n".join(served_in_words(each, found[each.name]) for each in feeds)
    return {"ok": all(each.is_within for each in found.values()), "feeds": documents}, text


def _chosen(loaded: LoadedPipeline, names: list[str]) -> list[AnyFeed]:
    """Return the feeds of these names, or all."""
    from hybrid_extensions.feeds.declare import feed_of, feeds_of
    from sources.errors import InputError

    if not feeds_of(loaded):
        message = f"Pipeline `{loaded.pipeline.name}` declares no `feeds`."
        hint = (
            f"Add `feeds` to {loaded.path.name}, then run the command again; `hybrid reference` "
            "prints their fields."
        )
        raise InputError(message, hint, pipeline=loaded.pipeline.name, field="feeds")
    return [feed_of(loaded, name) for name in names] or feeds_of(loaded)
