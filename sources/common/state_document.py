"""Documents of the state folder: JSON with the version of its form, which is checked when read."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

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
            StateError: The document has another ``version`` than ``VERSION``, or none, is not JSON,
                or has missing, unknown or wrong fields.
        """
        try:
            document = json.loads(text)
            given = document.get("version") if isinstance(document, dict) else None
            if type(given) is not int or given != cls.VERSION:
                found = "no version" if given is None else f"version {given}"
                reason = f"it has {found}, this project reads version {cls.VERSION}"
                raise ValueError(reason)
            return cls.model_validate(document)
        except (ValueError, RecursionError) as error:
            told = str(error)
            if isinstance(error, ValidationError):
                # Without the names of classes.
                fields = [(".".join(map(str, each["loc"])), each["msg"]) for each in error.errors()]
                told = "; ".join(f"`{name}`: {why}" for name, why in fields)
            message = f"{file or 'A document of the state folder'} can't be read: {told}."
            hint = (
                "Run the version of this project that wrote it. If it is damaged, restore it from "
                "a backup. Without one, declare another `state` and `sink.path` (and `path` of a "
                "database snapshot), and load everything again: the old table stays as it is."
            )
            refused = StateError(message, hint, file=file) if file else StateError(message, hint)
            raise refused from None
