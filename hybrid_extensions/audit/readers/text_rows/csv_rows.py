"""CSV rows for the audit, split by Python: header, quotes, escapes, nulls, misplaced quotes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from hybrid_extensions.audit.readers.text_rows.file_lines import NOT_TEXT, TextRow, lines_of
from sources.errors import InputError
from sources.formats.csv_options import CsvOptions

Split = Callable[[str], list[str | None]]


def csv_rows(path: str, options: CsvOptions, columns: list[str]) -> Iterator[TextRow]:
    """Yield the rows of a CSV file, each with the texts of the columns in order.

    A bad row has a ``reason``, and None for each text. The header and blank lines are no rows. An
    empty file has no rows, and its header is not checked.

    Args:
        path: Local path of the file, which may be compressed.
        options: Dialect of the file.
        columns: Names of the columns; without a header, all of the file's in order.

    Raises:
        InputError: The header lacks a declared column or has it several times, or the file can't be
            read.
    """
    rows = _rows(path, options)
    names: list[str] = columns
    if options.header and (head := next(rows, None)) is not None:
        names = [text or "" for text in head.texts]
        if absent := [name for name in columns if names.count(name) != 1]:
            message = (
                f"File {path}: its header has column `{absent[0]}` {names.count(absent[0])} times, "
                "and `schema` needs it exactly once. The header is "
                f"{', '.join(names)[:200] or 'empty'}."
            )
            hint = "Correct `schema`, or restore the file's header."
            raise InputError(message, hint, file=path, column=absent[0], field="schema")
    positions = [names.index(name) for name in columns]
    no_values: list[str | None] = [None] * len(columns)
    for row in rows:
        if row.reason is None and len(row.texts) == len(names):
            yield row._replace(texts=[row.texts[position] for position in positions])
        else:
            reason = row.reason or f"the row does not have {len(names)} values"
            yield TextRow(row.offset, reason, no_values)


def _rows(path: str, options: CsvOptions) -> Iterator[TextRow]:
    """Yield all rows of a file, the header included; blank lines are none."""
    split = _splitter(options)
    begun, begin = "", 0
    for offset, line in lines_of(path, None if options.is_utf8 else options.encoding):
        if line is None:
            yield TextRow(offset, NOT_TEXT, [])
            continue
        begin = begin if begun else offset
        text = (begun + line).rstrip("\r\n")
        if not text:
            continue
        values = split(text)
        # A quoted value may continue in the next line.
        begun = begun + line if options.multiline and not values else ""
        if not begun:
            yield TextRow(begin, None if values else "its quotes are misplaced", values)
    if begun:
        yield TextRow(begin, "a quoted value has no end", [])


def _splitter(options: CsvOptions) -> Split:
    """Return a function that splits the text of a row into its values.

    The function returns an empty list for a text with misplaced quotes.
    """
    mark, delimiter, escape = options.quote, options.delimiter, options.escape_character
    quote, end = re.escape(mark), re.escape(delimiter)
    if escape is None:
        inside, pair, escaped = rf"(?:[^{quote}]|{quote}{quote})*+", mark * 2, None
    else:
        before = re.escape(escape)
        inside, pair = rf"(?:[^{quote}{before}]|{before}.)*+", escape + mark
        escaped = re.compile(f"{before}([{quote}{before}])", re.DOTALL)
    value = re.compile(
        rf"(?:{quote}(?P<quoted>{inside}){quote}|(?!{quote})(?P<plain>[^{end}\r\n]*))"
        rf"(?P<end>{end}|\Z)",
        re.DOTALL,
    )
    nulls = frozenset(options.null)

    def split(text: str) -> list[str | None]:
        if mark not in text:
            return [None if each in nulls else each for each in text.split(delimiter)]
        values: list[str | None] = []
        position, last = 0, delimiter
        while last:
            match = value.match(text, position)
            if match is None:
                return []
            position, last = match.end(), match["end"]
            quoted = match["quoted"]
            if quoted is None:
                values.append(None if match["plain"] in nulls else match["plain"])
            elif escaped is None:
                values.append(quoted.replace(pair, mark))
            else:
                values.append(escaped.sub(r"\1", quoted))
        return values

    return split
