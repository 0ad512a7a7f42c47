"""Documents of the state folder: JSON with the version of its form, which is checked when read."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator

from sources.errors import StateError


class Part(BaseModel):
    """Part of a document of the state folder: immutable, and unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Record(Part):
    """Base of the JSON documents in the state folder, each with the version of its form.

    :meth:`parse` refuses a document of another version than ``VERSION``.
    """

    VERSION: ClassVar[int] = 1

    version: int = 0

    @model_validator(mode="before")
    @classmethod
    def _of_this_version(cls, values: Any) -> Any:
        return {"version": cls.VERSION, **values} if isinstance(values, dict) else values

    @classmethod
    def parse(cls, text: bytes, file: str = "") -> Self:
        """Parse the content of a JSON file of the state folder as a document of this class.

        Args:
            text: Content of the file.
            file: Its path, for the message of an error.

        Raises:
            StateError: The document has another ``version`` than ``VERSION``, is not JSON, or has
                missing, unknown or wrong fields.
        """
        try:
            document = json.loads(text)
            given = document.get("version") if isinstance(document, dict) else None
            if type(given) is not int or given != cls.VERSION:
                reason = f"it has version {given!r}, this project reads version {cls.VERSION}"
                raise ValueError(reason)
            return cls.model_validate(document)
        except (ValueError, RecursionError) as error:
            where = f"{file}: " if file else ""
            message = (
                f"A document of kind {cls.__name__} in the state folder can't be read: {where}"
                f"{error}."
            )
            hint = (
                "Run the version of this project that wrote the state folder. If the document is "
                "damaged, restore it from a backup. Without one, declare another `state` and "
                "another `sink.path` and load everything again: the table that there is stays as "
                "it is, without new rows."
            )
            refused = StateError(message, hint, file=file) if file else StateError(message, hint)
            raise refused from None
