"""Reading a pipeline from YAML: environment variables, and errors that show the way out."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from sources.common.positions import Record
from sources.common.security import check_secrets_come_from_environment
from sources.common.state import Folder, Generation, open_generation
from sources.config.pipeline import SOURCE_MODELS, Pipeline
from sources.errors import InputError, StateError

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
KEPT = "hybrid-definition.json"
"""Lies beside a pipeline's file that was kept for a generation."""


class KeptDefinition(Record):
    """What a copy of a pipeline's file, and of the modules of its functions, was kept for.

    Attributes:
        generation: The generation that runs by it; None of a pipeline of its own.
        home: Folder of the original: relative paths go on from there.
        code: Folder of the modules; that of the file, if left out.
    """

    generation: str | None
    home: str
    code: str | None = None


@dataclass(frozen=True)
class LoadedPipeline:
    """A pipeline and where it was declared.

    Attributes:
        path: The YAML file, absolute; jobs read it again, so no value of it is handed around.
        pipeline: The declaration, environment variables filled in.
        kept: What the file was kept for, if it is the copy of a generation; else it is the newest
            generation's.

    """

    path: Path
    pipeline: Pipeline
    kept: KeptDefinition | None = None

    @property
    def folder(self) -> Path:
        """Folder of the file, or of its original: relative paths start here."""
        return self.path.parent if self.kept is None else Path(self.kept.home)

    @property
    def code(self) -> list[Path]:
        """Folders in which the modules of its functions are looked for first, in order."""
        if self.kept is None:
            return [self.folder]
        return [Path(self.kept.code or self.path.parent), self.folder]

    @property
    def state(self) -> Path:
        """The folder that holds its generations."""
        return Path(self.locate(self.pipeline.state)) / self.pipeline.name

    def locate(self, path: str) -> str:
        """A path of the declaration, made absolute; one with a scheme is left as it is."""
        if "://" in path:
            return path
        return os.path.normpath(self.folder / Path(path).expanduser())

    def open_generation(self, *, create: bool) -> Generation | None:
        """Open the generation that this declaration is about.

        The newest one, or the one for which the file was kept.
        """
        named = None if self.kept is None else self.kept.generation
        return open_generation(self.state, self.contract(), named, create=create)

    def contract(self) -> dict[str, object]:
        """The parts of the declaration that may not change under a checkpoint."""
        pipeline = self.pipeline
        sink = pipeline.sink.model_dump(mode="json", exclude_none=True)
        contract: dict[str, object] = {
            "sources": [source.name for source in pipeline.sources],
            "event_time": pipeline.event_time,
            "key": pipeline.key,
            "allowed_lateness": pipeline.allowed_lateness.total_seconds(),
            "seam_filter": pipeline.seam_filter,
            "sequence": pipeline.sequence,
            "sink": {**sink, "path": self.locate(pipeline.sink.path)},
        }
        for source in pipeline.sources:
            contract |= source.contract()
        return contract

    def require_generation(self) -> Generation:
        """The generation that this declaration is about.

        Raises:
            StateError: Nothing was planned yet.
        """
        generation = self.open_generation(create=False)
        if generation is None:
            message = f"Pipeline `{self.pipeline.name}` has no state in {self.pipeline.state}."
            raise StateError(message, "Plan or run it first.")
        return generation


def declare(
    path: Path, document: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> LoadedPipeline:
    """Declare a pipeline in code: it is checked, then written as the file that its runs read.

    Args:
        path: The file; its folder holds the pipeline's functions, and relative paths start there.
        document: What a pipeline's file holds, as lists, mappings and scalars. Secrets stay
            ``${NAME}`` here, too.
        environment: Values for ``${NAME}`` and ``${NAME:-default}``.

    Raises:
        InputError: As of :func:`load_pipeline`; the file is as it was before.
        StateError: It can't be written.
    """
    path = path.absolute()
    text = "# Written by the code that declares this pipeline: change it there.\n"
    try:
        text += yaml.safe_dump(dict(document), sort_keys=False)
    except yaml.YAMLError as error:
        message = f"{path.name} can't be written as YAML: {error}"
        raise InputError(message, "Give lists, mappings, texts, numbers and dates.") from None
    loaded = _check(path, yaml.safe_load(text), environment)
    # Written only if it says something else: jobs read it while this is called again and again.
    if not path.exists() or path.read_text() != text:
        Folder(path.parent).replace_bytes(path.name, text.encode())
    return loaded


def load_pipeline(path: Path, environment: Mapping[str, str] = os.environ) -> LoadedPipeline:
    """Read and check a pipeline.

    Args:
        path: A YAML file.
        environment: Values for ``${NAME}`` and ``${NAME:-default}``.

    Raises:
        InputError: Names the field, the value and what is allowed.

    """
    path = path.absolute()
    try:
        document = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        message = f"There is no file {path}."
        raise InputError(message, "Name a pipeline's YAML file.") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        message = f"{path} can't be read as YAML: {error}"
        raise InputError(message) from None
    return _check(path, document, environment)


def _check(path: Path, document: Any, environment: Mapping[str, str]) -> LoadedPipeline:
    """The pipeline that a document declares."""
    if not isinstance(document, dict):
        message = f"{path} holds no mapping."
        raise InputError(message, "A pipeline starts with `name:`.")
    check_secrets_come_from_environment(document)
    unset: set[str] = set()
    filled = _fill(document, environment, unset)
    if unset:
        message = f"{path.name}: environment variable {', '.join(sorted(unset))} is not set."
        raise InputError(message, "Set it, or give a default: `${NAME:-default}`.")
    try:
        kept = Folder(path.parent).read(KEPT, KeptDefinition)
        loaded = LoadedPipeline(path, Pipeline.model_validate(filled), kept)
        return replace(loaded, pipeline=loaded.pipeline.located(loaded.locate))
    except ValidationError as error:
        lines = [_explain(dict(item), Pipeline) for item in error.errors()]
        message = "\n".join([f"{path.name} is not a valid pipeline:", *lines])
        raise InputError(message) from None


def variables_used(path: Path, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Environment variables from which a pipeline's values come, sorted.

    A default counts as a value of its own; what supervision reads is no matter of a job.
    """
    document = yaml.safe_load(path.read_text())
    names: set[str] = set()
    for field, value in document.items():
        unset: set[str] = set()
        _fill(value, {}, unset)
        names |= unset
        if field != "supervision":
            texts = yaml.safe_dump(value)
            names |= {found[1] for found in _VARIABLE.finditer(texts) if found[1] in environment}
    return sorted(names)


def _fill(value: Any, environment: Mapping[str, str], unset: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(item, environment, unset) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, environment, unset) for item in value]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        found = environment.get(name) or default
        if found is None:
            unset.add(name)
            return ""
        return found

    return _VARIABLE.sub(replacement, value)


def _explain(error: dict[str, Any], model: type[BaseModel]) -> str:
    location = [part for part in error["loc"] if part not in SOURCE_MODELS]
    where = ".".join(str(part) for part in location) or "pipeline"
    if error["type"] == "extra_forbidden":
        allowed = _fields_at(error["loc"][:-1], model)
        close = difflib.get_close_matches(str(location[-1]), allowed, 1, 0.5)
        advice = f"did you mean `{close[0]}`?" if close else f"allowed: {', '.join(allowed)}"
        return f"  {where}: unknown field; {advice}"
    if error["type"] == "missing":
        return f"  {where}: this field is needed"
    text = error["msg"].removeprefix("Value error, ")
    shown = error.get("input")
    given = f" (given: {shown!r})" if isinstance(shown, str | int | float) else ""
    return f"  {where}: {text}{given}"


def _fields_at(location: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """Names that a YAML mapping at this place may use."""
    current: type[BaseModel] | None = model
    for part in location:
        if part in SOURCE_MODELS:
            current = SOURCE_MODELS[str(part)]
        elif isinstance(part, str) and current is not None and part in current.model_fields:
            current = _model_in(current.model_fields[part].annotation)
    fields = current.model_fields if current is not None else {}
    return [info.alias or name for name, info in fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _model_in(arg))), None)
