"""Commands `hybrid publish-cuts` and `hybrid cut`: publish consistent cuts, and show one."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli import panels
from orchestration.cli.interrupts import sigterm_interrupts
from orchestration.cli.output import NOTHING_CHANGED, AsJson, answer, tell

if TYPE_CHECKING:
    from hybrid_extensions.cuts.table import Cut

app = typer.Typer()
Files = Annotated[
    list[Path],
    typer.Argument(help="Files of pipelines, or one with `tables`.", metavar="PIPELINE…"),
]
_AGAIN_S = 1.0


@app.command("publish-cuts", rich_help_panel=panels.MORE)
def publish_cuts(
    pipelines: Files,
    once: Annotated[
        bool, typer.Option("--once", help="Publish one cut, and return; 1 if it is given up.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Publish consistent cuts of the tables of a database, until Ctrl-C or SIGTERM.

    A cut is a version of each table that together are the database as of one commit.
    """
    with answer(as_json, "Cuts that were published stay.") as show, sigterm_interrupts():
        from hybrid_extensions.cuts.attempt import GivenUp
        from hybrid_extensions.cuts.members import load_group
        from hybrid_extensions.cuts.publisher import publish
        from sources.errors import HybridError, leaving

        with leaving("No cut was published; nothing was changed."):
            group = load_group(pipelines)
        while True:
            begun = time.monotonic()
            try:
                found = publish(group)
            except HybridError as error:
                if once or not error.transient:
                    raise
                found = GivenUp(str(error))
            if once:
                good = not isinstance(found, GivenUp)
                document = {"why": found.why} if isinstance(found, GivenUp) else _document(found)
                show({"ok": good, **document}, _line(found))
                return
            tell(_line(found))
            every_s = group.cuts.every.total_seconds()
            rest_s = _AGAIN_S if isinstance(found, GivenUp) else every_s
            time.sleep(max(rest_s - (time.monotonic() - begun), 0))


@app.command(rich_help_panel=panels.MORE)
def cut(
    pipeline: Annotated[
        Path, typer.Argument(help="File of a pipeline, or with `tables`.", metavar="PIPELINE")
    ],
    at: Annotated[
        str | None,
        typer.Option(help="The last cut up to this time, such as 2026-01-31T12:00:00Z."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a consistent cut: the version of each table, which together are the database at a time.

    By default the last one.
    """
    with answer(as_json, NOTHING_CHANGED) as show:
        from hybrid_extensions.cuts.members import load_group
        from hybrid_extensions.cuts.table import read_cut

        group = load_group([pipeline])
        found = read_cut(group.folder, None if at is None else _time(at))
        for name in found.tables:
            found.open(name, group.stores)
        show({"ok": True, **_document(found)}, _table(found))


def _time(text: str) -> datetime:
    from sources.errors import InputError

    try:
        time_ = datetime.fromisoformat(text)
    except ValueError:
        message = f"`--at {text}` is not a time."
        hint = "Write it as 2026-01-31T12:00:00Z."
        raise InputError(message, hint, value=text) from None
    if time_.tzinfo is None:
        message = f"`--at {text}` needs a time zone."
        raise InputError(message, f"Write {time_.isoformat()}Z for UTC.", value=text)
    return time_.astimezone(UTC)


def _document(found: Cut) -> dict[str, Any]:
    return {
        "cut": found.number,
        "position": found.position,
        "committed_at": found.committed_at.astimezone(UTC).isoformat(),
        "tables": {name: each._asdict() for name, each in found.tables.items()},
    }


def _line(found: Any) -> str:
    from hybrid_extensions.cuts.attempt import GivenUp

    if isinstance(found, GivenUp):
        return f"No cut: {found.why}"
    versions = ", ".join(f"{name} {each.version}" for name, each in found.tables.items())
    return f"Published {found} at {found.position}: {versions}."


def _table(found: Cut) -> Any:
    from rich.markup import escape

    from orchestration.cli.fitting_table import Fitting

    table = Fitting("table", "version", "path", title=f"{found} at {found.position}")
    for name, each in found.tables.items():
        table.add_row(name, str(each.version), escape(each.path))
    return table
