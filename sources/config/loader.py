"""Loader of a pipeline's YAML file: environment variables and validation."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from sources.common.environment import FILE_SUFFIX, is_set, variable
from sources.common.fields import Declared
from sources.common.positions import Record
from sources.config.code.own_modules import OwnModules
from sources.config.declaration_errors import explained, invalid_file, with_source
from sources.config.pipeline import Pipeline
from sources.config.plain_paths import require_plain_path
from sources.config.plain_secrets import check_secrets_come_from_environment
from sources.config.section import Section
from sources.config.source.file_source import FileSource
from sources.errors import InputError, StateError
from sources.extensions import contributions
from sources.state.generation import Generation, Ways, open_generation
from sources.storage.folder import Folder

M = TypeVar("M", bound=BaseModel)
S = TypeVar("S", bound=Section)
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
KEPT = "hybrid-definition.json"
"""Name of the file next to a copy of a pipeline's file, made for a generation."""
WRITTEN = "# Written by the code that declares this pipeline: change it there."
"""First line of a file that :func:`declare` has written."""


class KeptDefinition(Record):
    """Note next to a copy of a pipeline's file and modules that says where the copy is from.

    A copy is kept for each generation (one computation of the whole target table), so that later
    changes of the original do not affect its runs.

    Attributes:
        generation: Name of the generation that the copy is for; None if the copy is a pipeline of
            its own.
        home: Folder of the original file, from which relative paths start.
        code: Folder of the modules; None if they are in the folder of the copy.
    """

    generation: str | None
    home: str
    code: str | None = None


@dataclass(frozen=True)
class LoadedPipeline:
    """A pipeline's declaration, and the file that it was read from.

    Attributes:
        path: YAML file, absolute. Spark jobs get this path and read the file again.
        pipeline: Declaration, with environment variables replaced.
        kept: Origin of the file if it is a kept copy, such as of a generation; None if it is the
            user's own file, which declares the newest generation.
        modules: Registry that keeps the modules of its functions apart from those of other
            pipelines, in a process that runs several; None if they are imported as usual.
        sections: Parts of the file that extensions declare.
    """

    path: Path
    pipeline: Pipeline
    kept: KeptDefinition | None = None
    modules: OwnModules | None = field(default=None, compare=False)
    sections: tuple[Section, ...] = ()

    def section(self, kind: type[S]) -> S:
        """Return the part of the file that an extension declares; its defaults if there is none.

        Args:
            kind: The extension's model.
        """
        return next((each for each in self.sections if isinstance(each, kind)), kind())

    @property
    def folder(self) -> Path:
        """Folder that relative paths of the declaration start from.

        That of the YAML file; for a copy that was kept for a generation, that of the original.
        """
        return self.path.parent if self.kept is None else Path(self.kept.home)

    @property
    def code(self) -> list[Path]:
        """Folders where modules of user functions are looked for before the installed packages.

        The first one that has the module is used: for a kept copy the folder with the kept
        modules, then the folder of the original file.
        """
        if self.kept is None:
            return [self.folder]
        return [Path(self.kept.code or self.path.parent), self.folder]

    def own_file(self, name: str) -> Path:
        """Return the path of a file of the user's code, such as the query; it need not exist.

        For a kept declaration this is the kept copy, or, if none was kept, the file in the folder
        of the original.

        Args:
            name: Its path, relative to the folder of the pipeline's file.
        """
        places = [folder / name for folder in self.code]
        return next((path for path in places if path.exists()), places[-1])

    @property
    def state(self) -> Folder:
        """Folder with the state of all generations: ``<state>/<name>``.

        Raises:
            InputError: The scheme of ``state`` is not supported.
        """
        return self.place(self.pipeline.state).folder(self.pipeline.name)

    @property
    def target(self) -> Folder:
        """Folder of the target table that readers see.

        Raises:
            InputError: The scheme of ``sink.path`` is not supported.
        """
        return self.place(self.pipeline.sink.path).called("target folder")

    def place(self, path: str) -> Folder:
        """Return a declared path as a folder in the store that it names.

        Raises:
            InputError: The path's scheme is not supported.
        """
        return self.pipeline.stores.folder(self.locate(path))

    def locate(self, path: str) -> str:
        """Return a path of the declaration as an absolute one; URLs are returned unchanged.

        Relative paths start from :attr:`folder`; ``~`` is the user's home.
        """
        if "://" in path:
            return path
        return os.path.normpath(self.folder / Path(path).expanduser())

    def open_generation(self, *, create: bool) -> Generation | None:
        """Open the generation that this declaration is about, after comparing the contract.

        That is the one that the file was copied for, else the newest one. A generation is one
        computation of the whole target table.

        Args:
            create: Whether to create the first generation if there is none.

        Returns:
            The generation; None if there is none and ``create`` is False.

        Raises:
            StateError: The declaration changed in a way that the checkpoint can't follow; or the
                state is damaged, or can't be written.
            InputError: The scheme of ``state`` is not supported, or its store refuses.
            UnavailableError: The store of ``state`` does not answer.
        """
        named = None if self.kept is None else self.kept.generation
        return open_generation(self.state, self.contract(), named, create=create)

    def contract(self) -> dict[str, object]:
        """Return the declared values that may not change while a checkpoint is in use.

        By field or group of fields, such as ``sources.history.read``. A generation keeps digests of
        them, and :meth:`open_generation` refuses to continue after one was changed.
        """
        pipeline = self.pipeline
        # The name in a catalog is for readers; copied files hold the rows that were read.
        free = {"table", "copy_files"}
        sink = pipeline.sink.model_dump(mode="json", exclude_none=True, exclude=free)
        contract: dict[str, object] = {
            "sources": [source.name for source in pipeline.sources],
            "event_time": pipeline.event_time.column,
            "key": pipeline.key,
            "allowed_lateness": pipeline.allowed_lateness.total_seconds(),
            "seam_filter": pipeline.seam_filter,
            "sequence": pipeline.sequence,
            "sink": {**sink, "path": self.locate(pipeline.sink.path)},
        }
        contract |= pipeline.row_rules.contract()
        for source in pipeline.sources:
            contract |= source.contract()
            if isinstance(source, FileSource) and source.patterns and source.table is None:
                ways = self._ways(source.patterns)
                made = (source.model_copy(update={"path": each}).contract() for each in ways)
                name = f"sources.{source.name}"
                contract[name] = Ways([each[name] for each in made])
        return contract

    def _ways(self, patterns: list[str]) -> list[list[str]]:
        """Return globs as they are declared, absolute, and relative to the pipeline's folder."""
        absolute = [self.locate(each) for each in patterns]
        prefix = f"{self.folder}{os.sep}"
        return [patterns, absolute, [each.removeprefix(prefix) for each in absolute]]

    def require_generation(self) -> Generation:
        """Return the existing generation that this declaration is about; never create one.

        Raises:
            StateError: The pipeline was never planned or run, or the declaration changed in a way
                that the checkpoint can't follow; or the state is damaged.
            InputError: The scheme of ``state`` is not supported, or its store refuses.
            UnavailableError: The store of ``state`` does not answer.
        """
        generation = self.open_generation(create=False)
        if generation is None:
            name, state = self.pipeline.name, self.pipeline.state
            message = f"Pipeline `{name}` has no state in {state}: it was never planned or run."
            hint = "Run `hybrid plan P` or `hybrid run P` first."
            raise StateError(message, hint, pipeline=name, file=state)
        return generation


def declare(
    path: Path, document: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> LoadedPipeline:
    """Declare a pipeline in code: check it, then write it to the file that its runs read.

    Args:
        path: YAML file to write. Its folder holds the pipeline's functions; relative paths start
            from there.
        document: Content of the file, as lists, mappings and scalars. Secrets have to be
            ``${NAME}``, as in a file.
        environment: Values for ``${NAME}`` and ``${NAME:-default}``; ``NAME_FILE`` may name a
            file that has the value (:func:`~sources.common.environment.variable`).

    Returns:
        The checked pipeline.

    Raises:
        InputError: The document has values that YAML has no form for, a secret in plain text, a
            variable that is not set or whose file can't be read, or a field that is not valid; the
            file is not changed.
        StateError: The file can't be written.
    """
    path = path.absolute()
    text = f"{WRITTEN}\n"
    try:
        text += yaml.safe_dump(dict(document), sort_keys=False)
    except yaml.YAMLError as error:
        message = f"The document for {path.name} can't be written as YAML: {error}."
        hint = "Pass only lists, mappings, texts, numbers and dates to `declare`."
        raise InputError(message, hint, file=str(path)) from None
    loaded = _check(path, _parse(text), environment)
    # Written only if it differs, as jobs read it while this is called repeatedly.
    if not path.exists() or path.read_text() != text:
        Folder(path.parent).called("pipeline's folder").replace_bytes(path.name, text.encode())
    return loaded


def load_pipeline(path: Path, environment: Mapping[str, str] = os.environ) -> LoadedPipeline:
    """Read a pipeline's YAML file and check its fields, without looking at data or brokers.

    Args:
        path: YAML file.
        environment: Values for ``${NAME}`` and ``${NAME:-default}``; ``NAME_FILE`` may name a
            file that has the value (:func:`~sources.common.environment.variable`).

    Raises:
        InputError: The file can't be read, a secret is in plain text, an environment variable is
            not set or its file can't be read, or a field is not valid; the message has a line for
            each such field.
        StateError: The file is the copy of a generation, and the note of its origin is damaged.

    """
    path = path.absolute()
    return _check(path, read_document(path), environment)


def read_document(path: Path) -> Any:
    """Return the content of a YAML file as it is written, without environment variables.

    Args:
        path: The file, absolute.

    Raises:
        InputError: The file can't be read.
    """
    try:
        return _parse(path.read_text())
    except FileNotFoundError:
        message = f"There is no file {path}."
        hint = "Name the YAML file of a pipeline; `hybrid init` creates one for existing files."
        if (meant := path.with_name(f"{path.name}.yaml")).exists():
            hint = f"Name {meant.name}, which is there."
        raise InputError(message, hint, file=str(path)) from None
    except IsADirectoryError:
        message = f"{path} is a folder, not the YAML file of a pipeline."
        there = ", ".join(sorted(each.name for each in path.glob("*.yaml")))
        hint = f"Name a file in it: {there}." if there else "Name a pipeline's file."
        raise InputError(message, hint, file=str(path)) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        # A browser takes the name of a text, in angle brackets, for HTML.
        told = str(error).replace('in "<unicode string>", ', "in ")
        message = f"{path} can't be read as YAML: {told}."
        hint = "Correct the line that the message names, or the file's permissions or encoding."
        raise InputError(message, hint, file=str(path)) from None


def _parse(text: str) -> Any:
    """Return what a YAML text declares."""
    # libyaml is eight times as fast; each look of the supervision reads the pipeline's file.
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _check(path: Path, document: Any, environment: Mapping[str, str]) -> LoadedPipeline:
    """Return the pipeline that a document declares."""
    if isinstance(document, dict) and "tables" in document:
        message = f"{path.name} declares many tables, each of which is a pipeline of its own."
        hint = (
            f"Name one of them: `{path.name}/<schema>.<table>`, or its file "
            f"`{path.stem}.<schema>.<table>.yaml`; `hybrid tables P` makes the files."
        )
        raise InputError(message, hint, file=str(path), field="tables")
    kinds = [*contributions("section")]
    pipeline, *sections = _validated(path, document, [Pipeline, *kinds], environment)
    assert isinstance(pipeline, Pipeline)
    for section in sections:
        try:
            section.check(pipeline)
        except ValueError as error:
            raise invalid_file(path, [f"  pipeline: {error}"]) from None
    kept = Folder(path.parent).read(KEPT, KeptDefinition)
    loaded = LoadedPipeline(path, pipeline, kept)
    located = pipeline.located(loaded.locate)
    require_plain_path("state", loaded.locate(located.state))
    require_plain_path("sink.path", loaded.locate(located.sink.path))
    return replace(
        loaded,
        pipeline=located,
        sections=tuple(each.located(loaded.locate) for each in sections),
    )


def validated(
    path: Path, document: Any, model: type[M], environment: Mapping[str, str] = os.environ
) -> M:
    """Parse a YAML document as a model, with environment variables replaced.

    Args:
        path: The file that it is from, for messages.
        document: Content of the file.
        model: Model of the declaration.
        environment: Values for ``${NAME}`` and ``${NAME:-default}``; ``NAME_FILE`` may name a file
            that has the value (:func:`~sources.common.environment.variable`).

    Raises:
        InputError: A secret is in plain text, a variable is not set, or a field is not valid; the
            message has a line for each such field.
    """
    found: M
    (found,) = _validated(path, document, [model], environment)
    return found


def _validated(
    path: Path, document: Any, models: Sequence[type[Any]], environment: Mapping[str, str]
) -> list[Any]:
    """Return what a document declares for each model: the last ones take their fields out of it."""
    if not isinstance(document, dict):
        message = f"{path} contains a {type(document).__name__}, not a YAML mapping."
        hint = (
            "Write `field: value` lines, beginning with `name: <pipeline>`; `hybrid reference` "
            "prints all fields."
        )
        raise InputError(message, hint, file=str(path))
    check_secrets_come_from_environment(document)
    unset: set[str] = set()
    filled = _fill(document, environment, unset)
    if unset:
        names = sorted(unset)
        message = f"{path.name}: environment variable {', '.join(names)} is not set, or empty."
        hint = (
            f"Set it before you run the command (`export {names[0]}=…`, or the path of a file with "
            f"the value in {names[0]}{FILE_SUFFIX}), or write a default into the pipeline's file: "
            f"`${{{names[0]}:-default}}`."
        )
        raise InputError(message, hint, file=str(path))
    lines: list[str] = []
    found: list[Any] = []
    for model in reversed(models):
        own = filled if model is models[0] else _taken(filled, model)
        try:
            found.append(model.model_validate(own))
        except ValidationError as error:
            told = [
                with_source(explained(dict(item), model, models), item["loc"], own)
                for item in error.errors()
            ]
            lines = [*told, *lines]
    if lines:
        raise invalid_file(path, lines)
    return found[::-1]


def _taken(document: dict[str, Any], model: type[Declared]) -> dict[str, Any]:
    """Remove the fields of a model from a document, and return them."""
    return {name: document.pop(name) for name in model.written() if name in document}


def variables_used(path: Path, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the environment variables that a pipeline's jobs need, sorted.

    A variable with a default is included only if it is set; those that only ``supervision`` uses
    are not, as jobs don't need them.

    Args:
        path: YAML file that :func:`load_pipeline` accepts.
        environment: Variables that are set.

    Raises:
        OSError: The file can't be read.
        yaml.YAMLError: It is not YAML.
    """
    document = _parse(path.read_text())
    names: set[str] = set()
    for name, value in document.items():
        unset: set[str] = set()
        _fill(value, {}, unset)
        names |= unset
        if name != "supervision":
            texts = yaml.safe_dump(value)
            every = (found[1] for found in _VARIABLE.finditer(texts))
            names |= {name for name in every if is_set(name, environment)}
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
        text = variable(name, environment) or default
        if text is None:
            unset.add(name)
            return ""
        return text

    return _VARIABLE.sub(replacement, value)
