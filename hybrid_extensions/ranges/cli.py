"""The command that recomputes a range of the target."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.output import AsJson, By, PipelineFile, answer, load, person, tell

app = typer.Typer()


@app.command(rich_help_panel=panels.TABLE)
def backfill(
    pipeline: PipelineFile,
    since: Annotated[
        str, typer.Option(help="First event time of the range: a date, or a time with a zone.")
    ],
    until: Annotated[str, typer.Option(help="First event time after the range.")],
    dry_run: Annotated[bool, typer.Option(help="Only show how much would be read.")] = False,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Recompute a time range of the target from the files.

    Rows of the live stream are kept, and the stream continues. Of a table of windows, those that
    start in the range are recomputed.
    """
    with answer(as_json) as show:
        import uuid

        from hybrid_extensions.ranges.backfill import backfill as recompute
        from hybrid_extensions.ranges.backfill import look
        from hybrid_extensions.ranges.scope import utc
        from sources.common.fields import parse_instant

        begin, end = parse_instant(since), parse_instant(until)
        if dry_run:
            would = look(load(pipeline), begin, end)
            reads = [utc(would.scope.read.since), utc(would.scope.read.until)]
            document = {"generation": would.generation, "splits": would.splits, "reads": reads}
            show({"ok": True, **document, "bytes": would.bytes}, would.text)
            return
        found = recompute(
            load(pipeline),
            begin,
            end,
            uuid.uuid4().hex[:12],
            tell,
            person(by),
        )
        counts = found.replaced._asdict()
        show({"ok": True, "generation": found.generation, **counts}, found.text)
