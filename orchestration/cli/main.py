"""The command line ``hybrid``: its commands of the core, such as ``hybrid run``, and their order.

Exit status 0: good; 1: the answer is bad, or a run failed; 2: the command is refused. With
``--json`` one JSON document goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from contextlib import suppress
from enum import StrEnum
from importlib.metadata import version
from typing import Annotated

import typer

from orchestration.cli import control_commands, machine_commands, panels, target_commands
from orchestration.cli.output import (
    NOTHING_CHANGED,
    AsJson,
    By,
    GenerationName,
    PipelineFile,
    answer,
    load,
    load_acting,
    person,
)
from orchestration.cli.usage import Commands
from sources.errors import COMMITTED_STAYS, HybridError, InputError
from sources.extensions import contributions

app = typer.Typer(
    cls=Commands,
    help="Load history from files, then follow Kafka, with one Spark query and one table.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Until(StrEnum):
    """Choice of ``hybrid run --until``: once the stream is live, or once it has caught up."""

    LIVE = "live"
    CAUGHT_UP = "caught-up"


def main() -> None:
    """Run the command ``hybrid`` with the arguments of this process, and end the process.

    Its threads are not torn down: one within C++ would end the process by SIGABRT, after a command
    that succeeded (https://github.com/duckdb/duckdb/issues/13904).
    """
    status = 1

    def end() -> None:
        logging.shutdown()
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)

    # Called once the threads have ended that the interpreter waits for.
    atexit.register(end)
    try:
        # For errors before a command has begun, such as those of its imports.
        with answer("--json" in sys.argv):
            if _unloadable is not None:
                raise _unloadable
            app()
    except typer.Exit as refused:
        status = refused.exit_code
    except SystemExit as asked:
        if asked.code is None or isinstance(asked.code, int):
            status = asked.code or 0
        raise


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(version("hybrid-backfill"))
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Print the version, and end."
        ),
    ] = False,
) -> None:
    """Take the options that belong to no command, such as `--version`."""


@app.command(rich_help_panel=panels.START)
def validate(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Check a pipeline's declaration, without reading any data; nothing is written."""
    with answer(as_json, NOTHING_CHANGED) as show:
        from orchestration.operations import chain_plan
        from orchestration.pipeline_definitions import pipeline_definitions

        loaded = load(pipeline)
        warnings = chain_plan.validate(loaded)
        try:
            pipeline_definitions(loaded)
        except InputError as error:
            # The command line runs it nevertheless.
            warnings.append(str(error))
        names = [source.name for source in loaded.pipeline.sources]
        text = f"{loaded.pipeline.name}: {' → '.join(names)} is a valid pipeline."
        show(
            {"ok": True, "pipeline": loaded.pipeline.name, "sources": names, "warnings": warnings},
            "\n".join([text, *warnings]),
        )


@app.command(rich_help_panel=panels.START)
def plan(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Show what will be read, in which order, and where the topic is expected to start.

    The first call makes the plan and keeps it; no row is read or written yet.
    """
    with answer(as_json, NOTHING_CHANGED) as show:
        from orchestration.cli import console, terminal_tables
        from orchestration.cli.after_plan import after_plan
        from orchestration.operations import chain_plan
        from orchestration.progress.plan_preview import preview

        loaded = load(pipeline)
        with console.busy("Looking at the sources, and at the transform in Spark"):
            made = chain_plan.plan(loaded)
        seen = preview(loaded, made)
        document = {**made.model_dump(mode="json"), "preview": seen.model_dump(mode="json")}
        show({"ok": True, **document}, terminal_tables.plan(made, seen, after_plan(loaded)))


@app.command(rich_help_panel=panels.RUN)
def approve(pipeline: PipelineFile, by: By = None, as_json: AsJson = False) -> None:
    """Approve the plan of a pipeline that declares `approve: true`, so that its chain may run."""
    with answer(as_json, "The table was not changed, and no run was started.") as show:
        from sources.common.times import iso
        from sources.planning import approval

        given = approval.approve(load(pipeline), person(by))
        text = f"Approved by {given.by} at {iso(given.at_ms)}. Continue with `hybrid run P`."
        show({"ok": True, **given.model_dump(mode="json")}, text)


@app.command(rich_help_panel=panels.RUN)
def run(
    pipeline: PipelineFile,
    until: Annotated[Until, typer.Option(help="When to return.")] = Until.LIVE,
    as_json: AsJson = False,
) -> None:
    """Load history, hand over to Kafka and start the live stream; completed steps are skipped.

    `--until live` returns when the stream has committed its first batch, and leaves it running;
    `--until caught-up` waits until it has committed everything that is there, then stops it.
    """
    with answer(as_json, COMMITTED_STAYS) as show:
        from orchestration.cli import console, terminal_tables
        from orchestration.supervision.status import status as look
        from orchestration.supervision.status import with_changed_files

        loaded = load(pipeline)
        console.run(loaded, stop_when_caught_up=until is Until.CAUGHT_UP)
        found = with_changed_files(look(loaded), loaded)
        # A stream that was just started has yet to catch up; the serving one is not this run's.
        good = found.own_healthy or (found.live is not None and found.live.health == "late")
        show({"ok": good, **found.model_dump(mode="json")}, terminal_tables.outcome(found))


@app.command(rich_help_panel=panels.RUN)
def step(
    pipeline: PipelineFile,
    name: Annotated[
        str,
        typer.Argument(
            help="`plan`, a source, the hand-over to one, `<source>_handover`, or its export, "
            "`<source>_export`."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Run one step of the chain, for an orchestrator such as Airflow.

    A step that is complete does nothing when it is run again.
    """
    with answer(as_json, COMMITTED_STAYS) as show:
        from orchestration.chain import ChainRun, run_step

        outcome = run_step(ChainRun(load(pipeline)), name)
        show({"ok": True, "step": name, **outcome.document}, outcome.text)


@app.command(rich_help_panel=panels.LOOK)
def status(
    pipeline: PipelineFile, generation: GenerationName = None, as_json: AsJson = False
) -> None:
    """Show the state of a pipeline; exit status 1 if a run failed, or is dead, stuck or late.

    Of the serving generation and of one that waits for its promotion, unless one is named.
    """
    with answer(as_json, NOTHING_CHANGED) as show:
        from orchestration.cli import terminal_tables
        from orchestration.supervision.status import status_of

        found = status_of(load(pipeline), generation)
        show({"ok": found.healthy, **found.model_dump(mode="json")}, terminal_tables.status(found))


@app.command(rich_help_panel=panels.LOOK)
def history(
    pipeline: PipelineFile,
    last: Annotated[
        int, typer.Option(min=1, help="Number of actions, from the latest on back.")
    ] = 50,
    as_json: AsJson = False,
) -> None:
    """Show who did what: approvals, pauses, promotions, changes of the declaration, and others.

    An action that is only begun goes on, or its process was killed.
    """
    with answer(as_json, NOTHING_CHANGED) as show:
        from orchestration.cli import terminal_tables
        from sources.state.action_log import read_actions

        found = read_actions(load(pipeline).state, last)
        document = {"ok": True, "actions": [each.model_dump(mode="json") for each in found]}
        show(
            document,
            terminal_tables.history(found) if found else "Nobody has changed anything yet.",
        )


@app.command(rich_help_panel=panels.LOOK)
def logs(
    pipeline: PipelineFile,
    lines: Annotated[int, typer.Option(min=1, help="Number of lines, from the end.")] = 50,
    previous: Annotated[
        bool, typer.Option("--previous", help="Of the run before, such as one that was killed.")
    ] = False,
    generation: GenerationName = None,
    as_json: AsJson = False,
) -> None:
    """Show the output of the latest run's Spark driver, wherever it ran."""
    with answer(as_json, NOTHING_CHANGED) as show:
        from orchestration.cli import console
        from sources.serving import declared_generation, generation_with_role

        loaded = load_acting(pipeline, generation, as_kept=True)
        source, text = console.logs(loaded, lines, previous=previous)
        typer.echo(f"`{source}` of generation {generation_with_role(loaded)}:", err=True)
        document = {"ok": True, "generation": declared_generation(loaded), "source": source}
        show({**document, "lines": text.splitlines()}, text)


# In the order in which `hybrid --help` lists them.
for _commands in (control_commands, target_commands):
    app.add_typer(_commands.app)
app.add_typer(machine_commands.app)
_unloadable: HybridError | None = None
try:
    for _added in contributions("commands"):
        app.add_typer(_added)
except HybridError as _error:
    _error.effect = NOTHING_CHANGED
    _unloadable = _error
