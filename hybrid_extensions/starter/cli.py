"""Command `hybrid init`, which writes a first version of a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli import panels, shell_remedies
from orchestration.cli.output import AsJson, answer

app = typer.Typer()


@app.command(rich_help_panel=panels.START)
def init(  # noqa: PLR0913, PLR0917 - each is an option
    name: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    files: Annotated[
        str | None, typer.Option(help="Files of history, such as `data/**/*.parquet`.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Kafka topic that continues where the files end.")
    ] = None,
    servers: Annotated[str, typer.Option(help="Bootstrap servers of the topic.")] = "local",
    event_time: Annotated[
        str | None, typer.Option(help="Column with the time at which a row happened.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="Column that identifies a row, or field such as `event.id`; may be repeated."
        ),
    ] = None,
    postgres: Annotated[
        str | None,
        typer.Option(help="PostgreSQL to capture, such as `host=db dbname=shop user=reader`."),
    ] = None,
    mariadb: Annotated[
        str | None,
        typer.Option(
            "--mariadb",
            "--mysql",
            help="MariaDB or MySQL to capture, such as `mysql://reader@db:3306/shop`.",
        ),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(help="Table of it, `schema.table` or `database.table`; may be repeated."),
    ] = None,
    connect: Annotated[
        str, typer.Option(help="Kafka Connect, which captures it, such as `http://connect:8083`.")
    ] = "",
    folder: Annotated[Path, typer.Option(help="Folder to write to.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Create a new pipeline for existing files, or for tables of a database.

    For files: its YAML file, a transform and an audit query. For tables: a YAML file each, a
    transform, the connector's configuration for Kafka Connect, and a script that makes the topics.
    """
    given = [each for each in (files, postgres, mariadb) if each is not None]
    if len(given) != 1:
        message = (
            "Name either the files of history, `--files`, or a database, `--postgres`, "
            "`--mariadb` or `--mysql`."
        )
        raise typer.BadParameter(message)
    from sources.config.database_kind import kind_of

    if mariadb is not None and kind_of(mariadb).name != "mariadb":
        message = (
            "`--mariadb` takes an address such as `mariadb://reader@db:3306/shop`; `--mysql` is "
            "the same option, for `mysql://reader@db:3306/shop`."
        )
        raise typer.BadParameter(message)
    if files is None:
        listed = [each.strip() for table in tables or [] for each in table.split(",")]
        _init_capture(folder, name, given[0], listed, servers, connect, as_json=as_json)
        return
    with answer(as_json, "No file was written.") as show:
        from hybrid_extensions.starter.written_pipeline import StarterOptions, start

        options = StarterOptions(name, files or "", topic, servers, event_time, key or [])
        _, written, warnings = start(folder, options)
        shell_remedies.name(written[0])
        shown = "\n".join(f"  {path}" for path in written)
        told = "".join(f"Note: {each}\n" for each in warnings)
        text = f"Written:\n{shown}\n{told}Check these files, then run `hybrid plan P`."
        paths = [str(path) for path in written]
        show({"ok": True, "pipeline": name, "written": paths, "notes": warnings}, text)


def _init_capture(  # noqa: PLR0913 - each is an option
    folder: Path,
    name: str,
    dsn: str,
    tables: list[str],
    servers: str,
    connect: str,
    *,
    as_json: bool,
) -> None:
    """Answer `hybrid init` for a database."""
    with answer(as_json, "No file was written.") as show:
        from hybrid_extensions.cdc.capture_starter import CaptureOptions
        from hybrid_extensions.starter.capture_database import next_steps, start_capture

        options = CaptureOptions(name, dsn, tables, servers, connect)
        loaded, written, warnings = start_capture(folder, options)
        paths = [str(path) for path in written]
        shown = "\n".join(f"  {path}" for path in paths)
        warned = "".join(f"Warning: {each}\n" for each in warnings)
        text = f"Written:\n{shown}\n{warned}{next_steps(options, loaded)}"
        show({"ok": True, "name": name, "written": paths, "warnings": warnings}, text)
