"""Commands on a file with `tables`: each acts on the pipelines of all its tables.

``P/schema.table`` names one of them.
"""

from __future__ import annotations

import io
import json
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import typer

from orchestration.cli.output import answer, tell
from sources.config.table_template import Template, is_template
from spark_jobs.driver.own_output import OwnOutput

_OWN = ("tables", "init", "cut", "publish-cuts")
# They bring what is not copied yet into files, all tables at one point in time.
_COPYING = ("run", "snapshot")
# What waits for Spark is done for some tables at a time; more would only share the processors.
_AT_ONCE = {"run": 4}
Run = Callable[[list[str]], int]
"""Runs a command line, and returns its exit status."""


def act(words: list[str], run: Run) -> int | None:
    """Run a command on all tables of the template that it names, or on the one table.

    Args:
        words: The command line, without the program.
        run: Runs a command line that names no template.

    Returns:
        The exit status: the highest of all tables; None if no template is named.
    """
    for at, word in enumerate(words[1:], 1):
        path = Path(word)
        is_one = is_template(path.parent) if path.parent.is_file() else False
        if words[0] in _OWN or not (is_one or (path.is_file() and is_template(path))):
            continue
        before, after = words[:at], words[at + 1 :]
        try:
            with answer("--json" in words) as show:
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
    from sources.errors import InputError  # noqa: PLC0415

    if before[0] in _COPYING:
        from orchestration import table_pipelines  # noqa: PLC0415

        found = table_pipelines.copy(template, tell)
        for line in [] if found is None else found.lines():
            tell(line)
    tables = template.tables()
    if not tables:
        name = template.path.name
        message = f"{name} has no tables yet."
        hint = f"Look for them in the database: `hybrid tables {name}`."
        raise InputError(message, hint, file=str(template.path))
    is_json = "--json" in after

    def act_on(table: str) -> tuple[str, int, str]:
        out = io.StringIO()
        try:
            words = [*before, str(template.load(table).path), *after]
            with OwnOutput.into(out):
                status = run(words if is_json or before[0] != "status" else [*words, "--json"])
        except InputError as error:
            tell(f"{table}: {error}")
            return table, 2, json.dumps({"ok": False, **error.report().model_dump()})
        return table, status, out.getvalue()

    worst, documents = 0, {}
    for table, status, said in _each(act_on, tables, _AT_ONCE.get(before[0], 1)):
        worst = max(worst, status)
        if is_json:
            documents[table] = json.loads(said)
        elif before[0] == "status":
            sys.stdout.write(f"{table}: {_health(json.loads(said))}\n")
        else:
            sys.stdout.write(f"{table}\n{said}")
    changed = _changed(template) if before[0] == "status" else {}
    if is_json:
        show({"ok": worst == 0, "tables": documents, **changed}, None)
    elif before[0] == "status":
        for line in _advice(template, changed, is_ok=worst == 0):
            sys.stdout.write(f"{line}\n")
    return worst


def _each(
    act_on: Callable[[str], tuple[str, int, str]], tables: list[str], at_once: int
) -> Iterator[tuple[str, int, str]]:
    """Yield what a command says about each table as soon as it is known, some tables at a time."""
    done: queue.SimpleQueue[tuple[str, int, str] | BaseException] = queue.SimpleQueue()
    waiting = iter(tables)

    def work() -> None:
        # Iterators of lists may be shared by threads.
        for table in waiting:
            try:
                done.put(act_on(table))
            except BaseException as error:
                done.put(error)

    with redirect_stdout(OwnOutput(sys.stdout)):
        if at_once == 1:
            yield from map(act_on, tables)
            return
        for _ in range(min(at_once, len(tables))):
            # An interrupt does not wait for them.
            threading.Thread(target=work, daemon=True).start()
        for _ in tables:
            found = done.get()
            if isinstance(found, BaseException):
                raise found
            yield found


def _changed(template: Template) -> dict[str, list[str]]:
    """Return tables without a pipeline, and those that are gone; nothing if nobody answers."""
    from orchestration import table_pipelines  # noqa: PLC0415
    from sources.errors import HybridError  # noqa: PLC0415

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
        f"then run `hybrid run {name}`; to leave it out, add it to `tables.exclude`."
        for table in changed.get("new", [])
    ]
    lines += [
        f"{table}: no longer in the database, or not included: `hybrid tables {name}` says more."
        for table in changed.get("gone", [])
    ]
    if not is_ok:
        lines.append(
            f"What a message asks to declare for a table belongs into {name}: `tables: "
            f"{{overrides: {{<table>: {{changes: {{…}}}}}}}}`; `P` in a command is "
            f"`{name}/<table>`."
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
    return f"{live['health']}{lag}. {live['reason']}"
