"""Commands `hybrid compact` and `hybrid vacuum`: compact the target, delete unneeded files."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli import panels
from orchestration.cli.output import AsJson, By, PipelineFile, answer, load, person, tell

app = typer.Typer()


@app.command(rich_help_panel=panels.TABLE)
def compact(
    pipeline: PipelineFile,
    dry_run: Annotated[
        bool, typer.Option(help="Only show how many files would be compacted.")
    ] = False,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Compact small files of the target, those of history and of live rows separately.

    No row changes. The stream continues, and ranges can be recomputed afterwards.
    """
    with answer(as_json) as show:
        from dataclasses import asdict

        from hybrid_extensions.upkeep.compaction import compact as compact_files
        from hybrid_extensions.upkeep.compaction import in_words, look

        loaded = load(pipeline)
        if dry_run:
            would = look(loaded)
            show({"ok": True, **asdict(would)}, f"To be compacted: {in_words(would)}.")
            return
        done = compact_files(loaded, tell, person(by))
        show({"ok": True, **asdict(done)}, f"Compacted: {in_words(done)}.")


@app.command(rich_help_panel=panels.TABLE)
def vacuum(
    pipeline: PipelineFile,
    dry_run: Annotated[
        bool, typer.Option(help="Only show how many files would be deleted.")
    ] = False,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Delete files that the target's readers need no more; those of a rollback are kept.

    They were removed from the table longer ago than `delta.deletedFileRetentionDuration`.
    """
    with answer(as_json) as show:
        from hybrid_extensions.upkeep.vacuum import in_words, look
        from hybrid_extensions.upkeep.vacuum import vacuum as delete_unneeded

        loaded = load(pipeline)
        found = look(loaded) if dry_run else delete_unneeded(loaded, tell, person(by))
        document = {"ok": True, "files": len(found.files), "bytes": found.bytes}
        show(document, f"{'To be deleted' if dry_run else 'Deleted'}: {in_words(found)}.")
