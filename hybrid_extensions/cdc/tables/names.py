"""Names made of a table's name: pipeline, file, topic (as Debezium) and folder; odd characters.

A database takes any text as the name of a table. Two tables with pipelines of different names have
different topics and folders.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_OF_TOPIC = re.compile(r"[^A-Za-z0-9._-]")
# What ends a folder's name, stands for several, or is not part of a path at all.
_OF_FOLDER = re.compile(r"[/\\*?\[\]{}:#%\x00-\x1f\x7f]")
# What can't be in a file's name, and what the code of it would be taken for.
_OF_FILE = re.compile(r"[/\x00-\x1f\x7f.]|%(?=[0-9A-Fa-f]{2})")
_ABOVE_UTF_16 = 0xFFFF


def pipeline_name(name: str, table: str) -> str:
    """Return the name of a table's pipeline: lower case letters, digits and underscores.

    Two tables may get the same name.

    Args:
        name: Name that the template of all tables declares.
        table: ``schema.table``.
    """
    return re.sub(r"[^a-z0-9]+", "_", f"{name}_{table}".lower()).strip("_")


def topic_part(name: str) -> str:
    """Return a name as Debezium writes it into a topic's name.

    It writes an underscore for each UTF-16 code unit that such a name can't have.

    Args:
        name: Name of a schema, a database or a table.
    """
    return _OF_TOPIC.sub(lambda odd: "_" * (1 + (ord(odd[0]) > _ABOVE_UTF_16)), name)


def folder_part(name: str) -> str:
    """Return a name for use in a path or glob: characters that have a meaning there are replaced.

    They become underscores, so that two names may get the same one; a name of dots alone is
    replaced as a whole.

    Args:
        name: Name of a schema, a database or a table.
    """
    plain = _OF_FOLDER.sub("_", name)
    return plain if plain.strip(".") else "_" * len(plain)


def file_part(table: str) -> str:
    """Return a table's name as part of a file name; :func:`table_of_file` reverses it.

    Args:
        table: ``schema.table``.
    """
    schema, _, name = table.partition(".")
    return ".".join(_OF_FILE.sub(_code, part) for part in (schema, name))


def table_of_file(part: str) -> str | None:
    """Return the table (``schema.table``) that a part of a file name stands for; else None.

    It has to have exactly one dot. Percent escapes are decoded.

    Args:
        part: Text as :func:`file_part` returns it.
    """
    return unquote(part) if part.count(".") == 1 else None


def _code(odd: re.Match[str]) -> str:
    return f"%{ord(odd[0]):02X}"
