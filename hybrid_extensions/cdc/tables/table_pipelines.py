"""Discovery of a database's tables: which are added, refused or gone; files and copies of each."""

from __future__ import annotations

from collections.abc import Callable

from hybrid_extensions.cdc import snapshots
from hybrid_extensions.cdc.tables.found_tables import FoundTables
from hybrid_extensions.cdc.tables.names import pipeline_name
from hybrid_extensions.cdc.tables.template import FoundTable, Template
from sources.errors import HybridError, InputError, UnavailableError


def find(template: Template) -> FoundTables:
    """Find tables in the database, and write the pipeline's file of each new one.

    Files of tables that were found before stay as they are.

    Args:
        template: The file with `tables`.

    Raises:
        InputError: The database refuses the login, or what the template makes of each new table is
            not valid; one alone is refused, and holds up no other.
        UnavailableError: The database does not answer.
        StateError: A file can't be written.
    """
    found, made = _look(template)
    invalid: dict[str, InputError] = {}
    for table in made:
        try:
            template.write(table)
        except InputError as error:
            invalid[table.name] = error
    if not invalid:
        return found
    if len(invalid) == len(made) and not found.known:
        raise next(iter(invalid.values()))
    refused = {name: str(error).rstrip(".") for name, error in invalid.items()}
    added = [name for name in found.added if name not in invalid]
    return found._replace(added=added, refused={**found.refused, **refused})


def look(template: Template) -> FoundTables:
    """Find tables in the database without writing files: `added` are those without a pipeline.

    Args:
        template: The file with `tables`.

    Raises:
        InputError: The database refuses the login.
        UnavailableError: The database does not answer.
    """
    return _look(template)[0]


def _look(template: Template) -> tuple[FoundTables, list[FoundTable]]:
    """Return what a look at the database has found, and the tables without a pipeline."""
    declared = template.declared
    known = template.tables()
    # Few commands need what it imports, and its import takes a while.
    from hybrid_extensions.cdc.databases.kinds import access_to  # noqa: PLC0415

    dsn = declared.database.dsn
    found = access_to(dsn).find_tables(dsn, declared.tables.has)
    added: list[FoundTable] = []
    refused: dict[str, str] = {}
    left_out: dict[str, str] = {}
    owners = {pipeline_name(declared.name, table): table for table in known}
    for table in found:
        if table.name in known:
            continue
        name = pipeline_name(declared.name, table.name)
        made = FoundTable(table.name, table.columns, table.key, list(table.left_out))
        why = template.lacks(made)
        if name in owners:
            why = f"its pipeline would have the name of that of {owners[name]}, `{name}`"
        if why is not None:
            refused[table.name] = why
            continue
        owners[name] = table.name
        added.append(made)
        left_out |= {f"{table.name}.{column}": why for column, why in table.left_out.items()}
    names = {table.name for table in found}
    gone = [table for table in known if table not in names]
    still = [table for table in known if table in names]
    names_added = [table.name for table in added]
    return FoundTables(names_added, still, gone, refused, left_out), added


def copy(template: Template, report: Callable[[str], None]) -> FoundTables | None:
    """Find tables as :func:`find` does, and begin or resume each copy that is not complete.

    What is copied in one call is as of one point in time. Of a table that is followed while it is
    read (``snapshot.follow``), only the first part is copied, if none is. A table that can't be
    copied holds up no other: ``report`` gets its error, and its chain will raise it.

    Args:
        template: The file with `tables`.
        report: Called with a line for each chunk, and for each table.

    Returns:
        What was found; None if the database does not answer and there are pipelines already, which
        can run if their tables are copied.

    Raises:
        InputError: The database refuses, or what the template makes is not valid.
        UnavailableError: The database does not answer, and there is no table yet.
        StateError: A file can't be written.
    """
    try:
        found = find(template)
        every = [template.load(table) for table in template.tables()]
        for name, taken in snapshots.take_together(every, report).items():
            report(f"{name}: {taken}" if isinstance(taken, HybridError) else taken.text)
    except UnavailableError as error:
        if not template.tables():
            raise
        report(str(error))
        return None
    return found
