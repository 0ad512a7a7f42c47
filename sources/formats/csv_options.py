"""Options of CSV files: delimiter, header, quotes, nulls, line breaks in values, encoding."""

from __future__ import annotations

import codecs

from pydantic import Field, field_validator, model_validator

from sources.common.fields import Declared


class CsvOptions(Declared):
    r"""Dialect of CSV files.

    Attributes:
        delimiter: Character between two values.
        header: Whether the first line contains the column names; if not, the columns are those of
            ``schema``, in its order.
        quote: Character around values that contain a delimiter.
        null: Texts that mean null, by default the empty one. In quotes they mean it only in columns
            of numbers, times and booleans: elsewhere ``""`` is an empty text. Without the empty
            one, as in ``[NA]``, an empty value is an empty text, and makes the row bad if its
            column is one of numbers, times or booleans.
        multiline: Whether quoted values may contain line ends; such files can't be read in regions.
        escape: Character before a quote inside of a quoted value, such as ``\`` in files that
            Spark wrote with its defaults. Without it, a quote is doubled there.
        encoding: Encoding of the text, by a name that Python knows, such as ``latin-1`` or
            ``utf-16``. Files in another one than UTF-8 can't be read in regions.
    """

    delimiter: str = ","
    header: bool = True
    quote: str = '"'
    null: list[str] = Field(default_factory=lambda: [""])
    multiline: bool = False
    escape: str | None = None
    encoding: str = "utf-8"

    @field_validator("delimiter", "quote", "escape")
    @classmethod
    def _is_one_character(cls, value: str | None) -> str | None:
        if value is not None and (len(value) != 1 or not value.isascii() or value in "\r\n"):
            message = (
                f"`{value}` can't be used: it has to be one character of ASCII that is no line "
                'end. Write one, such as `;` or "\\t"; files with another one have to be written '
                "again."
            )
            raise ValueError(message)
        return value

    @field_validator("encoding")
    @classmethod
    def _is_of_text(cls, value: str) -> str:
        try:
            "\n".encode(value)
        except LookupError:
            message = (
                f"`{value}` is not an encoding of text. Write a name that Python knows, such as "
                "`latin-1`, `cp1252` or `utf-16`."
            )
            raise ValueError(message) from None
        return value

    @model_validator(mode="after")
    def _characters_differ(self) -> CsvOptions:
        escape = () if self.escape_character is None else (self.escape_character,)
        characters = [self.delimiter, self.quote, *escape]
        if len({*characters}) < len(characters):
            message = (
                "`delimiter`, `quote` and `escape` have to be different characters; they are "
                f"{', '.join(f'`{each}`' for each in characters)}. Correct one of them."
            )
            raise ValueError(message)
        return self

    @property
    def escape_character(self) -> str | None:
        """The character before a quote; None if a quote is doubled: it escapes itself."""
        return None if self.escape == self.quote else self.escape

    @property
    def is_utf8(self) -> bool:
        """Whether the text is UTF-8, with or without a byte order mark."""
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")

    def contract(self) -> dict[str, object]:
        """Return the options that decide what a row means, as JSON has them.

        They must not change under a checkpoint. An option of a later version (``escape``,
        ``encoding``) is in it only with another value than its default, so that the digests of
        older states stay valid; the first five always are.
        """
        first = {"delimiter", "header", "quote", "null", "multiline"}
        later = self.model_dump(mode="json", exclude=first, exclude_defaults=True)
        return {**self.model_dump(mode="json", include=first), **later}
