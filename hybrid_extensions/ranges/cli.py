"""Commands `hybrid backfill` and `hybrid follow`, which recompute ranges of event times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli import panels, shell_remedies
from orchestration.cli.output import (
    INTERRUPTED,
    AsJson,
    By,
    PipelineFile,
    answer,
    load,
    person,
    tell,
)

if TYPE_CHECKING:
    from hybrid_extensions.ranges.backfill import RangeLook, RangeResult
    from hybrid_extensions.ranges.request import Span
    from sources.config.loader import LoadedPipeline

app = typer.Typer()


@app.command(rich_help_panel=panels.TABLE)
def backfill(  # noqa: PLR0913, PLR0917 - each is an option
    pipelines: Annotated[
        list[Path], typer.Argument(help="YAML files of pipelines.", metavar="PIPELINE...")
    ],
    since: Annotated[
        str | None,
        typer.Option(help="First event time of the range: a date, or a time with a zone."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="First event time after the range.")] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            help="Instead of both: a day, `2024-03-01`, or `2024-03-01/2024-03-04` without the end "
            "day; may be repeated.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Only show how much would be read.")] = False,
    regardless: Annotated[
        bool,
        typer.Option(
            help="Recompute the range even if a table that follows this one can't follow, or late "
            "rows of it may wait in the stream."
        ),
    ] = False,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Recompute time ranges of targets from the files.

    Rows of the live stream are kept, and the stream continues. Of a table of windows, those that
    start in the range are recomputed. Several ranges, also of several pipelines, are recomputed one
    after the other: one that fails holds up no other, and the answer names the command for the
    rest.
    """
    with answer(as_json) as show:
        import uuid

        from hybrid_extensions.ranges import request
        from hybrid_extensions.ranges.backfill import backfill as recompute
        from hybrid_extensions.ranges.backfill import look

        spans = _spans(since, until, ranges or [])
        shell_remedies.name(pipelines[0])
        # All are read before anything is touched.
        loaded = [load(path) for path in dict.fromkeys(pipelines)]
        who = person(by)

        def act(pipeline: LoadedPipeline, span: Span) -> RangeResult | RangeLook:
            shell_remedies.name(pipeline.path)
            if dry_run:
                return look(pipeline, span.since, span.until)
            run_id = uuid.uuid4().hex[:12]
            times = (span.since, span.until)
            return recompute(pipeline, *times, run_id, tell, who, is_regardless=regardless)

        if len(loaded) == len(spans) == 1:
            done = act(loaded[0], spans[0])
            show({"ok": True, **done.document}, done.text)
            return
        found = request.recompute_all(loaded, spans, act, tell)
        show(request.document(found), request.in_words(found))
        if any(each.state == "interrupted" for each in found):
            raise typer.Exit(INTERRUPTED)


@app.command(rich_help_panel=panels.TABLE)
def follow(pipeline: PipelineFile, by: By = None, as_json: AsJson = False) -> None:
    """Recompute what was made of ranges that were recomputed in the table that is followed.

    The live run, which waits before such a range, reads on afterwards.
    """
    with answer(as_json) as show:
        from hybrid_extensions.ranges.followed.follow import follow as recompute

        done = recompute(load(pipeline), tell, person(by))
        text = " ".join(each.text for each in done) or "No range has to be recomputed."
        rows = [
            {
                "generation": each.generation,
                "version": each.version,
                "range": each.replaced.model_dump(mode="json"),
                **each.rows._asdict(),
            }
            for each in done
        ]
        show({"ok": True, "ranges": rows}, text)


def _spans(since: str | None, until: str | None, ranges: list[str]) -> list[Span]:
    """Return the ranges that the options name."""
    from hybrid_extensions.ranges.request import Span
    from sources.common.fields import parse_instant

    if ranges and since is None and until is None:
        return [Span.parse(text) for text in ranges]
    if ranges or since is None or until is None:
        message = "Name the range by `--since` and `--until`, or one or several by `--range`."
        raise typer.BadParameter(message)
    return [Span(parse_instant(since), parse_instant(until))]
