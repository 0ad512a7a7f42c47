"""Commands on a file with `tables`: on all tables, in parallel or in turn, or `P/schema.table`.

``P/schema.table`` names one of them.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from hybrid_extensions.cdc.parallel_pipelines import run_in_threads
from orchestration.cli import shell_remedies
from orchestration.cli.output import INTERRUPTED, NOTHING_CHANGED, answer, tell
from sources.errors import leaving
from sources.extensions import extensions
from spark_jobs.inside.driver.own_output import OwnOutput, Stream

if TYPE_CHECKING:
    from hybrid_extensions.cdc.tables.template import Template

_OWN = tuple(name for each in extensions() for name in each.whole_file_commands)
# They bring what is not copied yet into files, all tables at one point in time.
_COPYING = ("run", "snapshot")
# They wait for Spark, so they act on several tables at a time.
_WAITING = ("run", "resume", "drain")
Run = Callable[[list[str]], int]
"""Runs a command line, and returns its exit status."""


def act(words: list[str], run: Run) -> int | None:
    """Run a command on all tables of a template, or on the one that ``P/schema.table`` names.

    Args:
        words: The command line after ``hybrid``.
        run: Runs such a command line for one pipeline, and returns its exit status.

    Returns:
        The exit status: the highest of all tables; None, with nothing done, if no template is
        named.
    """
    for at, word in enumerate(words[1:], 1):
        path = Path(word)
        if words[0] in _OWN or not (path.is_file() or path.parent.is_file()):
            continue
        # With the model of declarations it takes seconds on a busy machine.
        from hybrid_extensions.cdc.tables.template import Template, is_template

        is_one = path.parent.is_file() and is_template(path.parent)
        if not (is_one or is_template(path)):
            continue
        before, after = words[:at], words[at + 1 :]
        try:
            shell_remedies.name(path.parent if is_one else path)
            with answer("--json" in words) as show:
                with leaving(NOTHING_CHANGED):
                    template = Template(path.parent if is_one else path)
                if is_one:
                    return run([*before, str(template.load(path.name).path), *after])
                return _act_on_all(template, before, after, run, show)
        except typer.Exit as end:
            return end.exit_code
    return None


def _act_on_all(
    template: Template, before: list[str], after: list[str], run: Run, show: Any
) -> int:
    from sources.errors import HybridError, InputError

    if before[0] in _COPYING:
        from hybrid_extensions.cdc.tables import table_pipelines

        found = table_pipelines.copy(template, tell)
        for line in [] if found is None else found.lines():
            tell(line)
    tables = template.tables()
    if not tables:
        name = template.path.name
        message = f"{name} has no pipeline of a table yet, so nothing was done."
        hint = "Look for the tables in the database: `hybrid tables P`."
        raise InputError(message, hint, file=str(template.path))
    is_json = "--json" in after

    def act_on(table: str, err: Stream) -> tuple[str, int, str]:
        out = io.StringIO()
        try:
            words = [*before, str(template.load(table).path), *after]
            with OwnOutput.into(out, err):
                status = run(words if is_json or before[0] != "status" else [*words, "--json"])
        except HybridError as error:
            tell(f"{table}: {error}")
            return table, 2, json.dumps({"ok": False, **error.report().model_dump()})
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        return table, status, out.getvalue()

    worst, documents = 0, {}
    with _each(act_on, tables, together=before[0] in _WAITING) as each:
        for table, status, said in each:
            worst = max(worst, status)
            if is_json:
                documents[table] = json.loads(said)
            elif before[0] == "status":
                sys.stdout.write(f"{table}: {_health(json.loads(said))}\n")
            else:
                sys.stdout.write(f"{table}\n{said}")
    shell_remedies.name(template.path)
    changed = _changed(template) if before[0] == "status" else {}
    if is_json:
        show({"ok": worst == 0, "tables": documents, **changed}, None)
    elif before[0] == "status":
        for line in _advice(template, changed, is_ok=worst == 0):
            sys.stdout.write(f"{shell_remedies.in_shell(line)}\n")
    return worst


@contextmanager
def _each(
    act_on: Callable[[str, Stream], tuple[str, int, str]], tables: list[str], *, together: bool
) -> Iterator[Iterator[tuple[str, int, str]]]:
    """Yield what a command says about each table as soon as it is known.

    Args:
        act_on: Runs the command on a table, with the stream for its standard error.
        tables: The tables.
        together: Act on several tables at a time, and begin each line on standard error with the
            name of its table.
    """
    err = sys.stderr
    with redirect_stdout(OwnOutput(sys.stdout, "stdout")):
        if not together:
            yield (act_on(table, err) for table in tables)
            return
        with (
            redirect_stderr(OwnOutput(err, "stderr")),
            run_in_threads(lambda table: act_on(table, _Labelled(table, err)), tables) as found,
        ):
            try:
                yield found
            except KeyboardInterrupt:
                tell("Interrupted: what is under way is ended first.")
                raise


class _Labelled(TextIOBase):
    """Stream that begins each line with a label.

    Args:
        label: The label.
        stream: Where the lines are written to, each once it is complete.
    """

    def __init__(self, label: str, stream: TextIO) -> None:
        self._label = label
        self._stream = stream
        self._begun = ""

    def write(self, text: str) -> int:
        """Write the lines that are complete with this text, and keep the rest for the next call.

        Returns:
            The length of the text.
        """
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            # In one piece, as other threads write to the same stream.
            self._stream.write(f"{self._label}: {line}\n")
        return len(text)


def _changed(template: Template) -> dict[str, list[str]]:
    """Return tables without a pipeline, and those that are gone; nothing if nobody answers."""
    from hybrid_extensions.cdc.tables import table_pipelines
    from sources.errors import HybridError

    try:
        found = table_pipelines.look(template)
    except HybridError:
        # Pipelines that run do not need the database; their own answers say how far it is read.
        return {}
    return {"new": found.added, "gone": found.gone}


def _advice(template: Template, changed: dict[str, list[str]], *, is_ok: bool) -> list[str]:
    """Return what people should do about the file, a sentence each."""
    name = template.path.name
    lines = [
        f"{table}: in the database, without a pipeline. To capture it, add it to the connector, "
        "then run `hybrid run P`; to leave it out, add it to `tables.exclude`."
        for table in changed.get("new", [])
    ]
    lines += [
        f"{table}: no longer in the database, or not included: `hybrid tables P` says more."
        for table in changed.get("gone", [])
    ]
    if not is_ok:
        lines.append(
            f"What a message asks to declare for a table belongs into {name}: `tables: "
            "{overrides: {<table>: {changes: {…}}}}`."
        )
    return lines


def _health(document: dict[str, Any]) -> str:
    """Return a line about one table, from the answer of `hybrid status --json`."""
    if "sources" not in document:
        return str(document["message"])
    live, last = document["live"], document["sources"][-1]
    lag = "" if last["lag"] is None else f", {last['lag']:,} behind"
    if live is None:
        states = [f"{each['source']} {each['state']}" for each in document["sources"]]
        return f"not live: {', '.join(states)}"
    note = "" if last["note"] is None else f" {last['note']}"
    return f"{live['health']}{lag}. {live['reason']}{note}"
