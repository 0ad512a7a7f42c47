"""SQL files of users, for the transform or the audit: read as UTF-8, not empty, and not parsed."""

from __future__ import annotations

from pathlib import Path

from sources.errors import InputError


def read_sql(path: Path, field: str, declared: str) -> str:
    """Return the text of a file with an SQL query, unchanged; the query is not parsed.

    Args:
        path: The file.
        field: Field of the declaration that names it, for messages.
        declared: The path as it is declared.

    Raises:
        InputError: The file can't be read, is not UTF-8, or has nothing but spaces.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"`{field}: {declared}` can't be read: {error}."
        hint = (
            f"Correct `{field}`, or write the file in UTF-8; a relative path starts at the folder "
            "of the pipeline's file."
        )
        raise InputError(message, hint, field=field, file=str(path)) from None
    if not text.strip():
        message = f"`{field}: {declared}` is empty."
        hint = f"Write one query into {path}, or name another file."
        raise InputError(message, hint, field=field, file=str(path))
    return text
