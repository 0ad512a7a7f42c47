"""Extensions: optional parts of the project, which the core finds and asks, but does not know.

An extension is a package in the folder `hybrid_extensions` with a constant `EXTENSION`, or an entry
point of the group `hybrid_backfill.extensions` that names such a constant in another distribution.
It says what it adds by the names of objects, which are imported when somebody asks for them.
Without its folder everything else works as before; a pipeline's file that declares its fields is
refused.

Processes of a driver ask, tasks never do: an executor may not have the package.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points, packages_distributions
from importlib.util import find_spec
from pkgutil import iter_modules, resolve_name
from typing import Any

from sources.errors import InputError

FOLDER = "hybrid_extensions"
"""Package whose packages are the project's own extensions."""
GROUP = "hybrid_backfill.extensions"
"""Entry points that name the constants of others."""
_CONSTANT = "EXTENSION"


@dataclass(frozen=True)
class Extension:
    """What an extension adds, each by the name of an object, ``module:object``.

    Attributes:
        name: Its name in messages, in lower case.
        section: Its part of a pipeline's file, a subclass of
            :class:`sources.config.section.Section`: each field of it is a field of the file.
        commands: Commands of ``hybrid``, a ``typer.Typer``. Imported at each start of it, so its
            module imports what commands need inside of them.
        definitions: Function from a loaded pipeline to Dagster definitions, which are merged with
            those of the pipeline.
        chain_assets: Names of those of its assets, below the pipeline's own key, that the job of
            the pipeline's chain materializes, too.
        status: Function from a loaded pipeline to a
            :class:`orchestration.supervision.status_part.StatusPart`. Called at each look.
        steps: Function from a loaded pipeline to an
            :class:`orchestration.step_observers.StepObserver`, or to None. Called at each step.
        actions: Function from a loaded pipeline to actions of its control job in Dagster, a mapping
            from names to :class:`orchestration.defs.jobs.actions.Action`.
        value_formats: Mapping from names of formats of a record's value to their models, each a
            :class:`sources.decoding.value_formats.base.ValueFormat`. Their decoders run in tasks,
            so their modules have to be installed where executors run, too.
        file_formats: Mapping from names of formats of files to functions from a
            :class:`sources.config.source.file_source.FileSource` to a
            :class:`sources.formats.base.Format`. Called in the driver; readers run in tasks.
        expressions: Function from an expression of Spark SQL and the columns that it may use to
            :class:`sources.common.sql.proven_expressions.Proven` or ``Unproven``. The first one
            counts. Called by plans and audits.
        transform_analysis: Function that analyzes a transform while planning, inside Spark: from a
            Spark session, a loaded pipeline, an
            :class:`sources.planning.transform_analysis.AnalysisRequest` and an empty folder to a
            ``TransformAnalysis``. The first one counts.
        held_offsets: What finds the Kafka offsets that files hold, a
            :class:`sources.files.held_offsets.OffsetsInFiles`. The first one counts.
        estimate: Function of a loaded pipeline, a generation, its plan and the number of
            micro-batches of each file source to an
            :class:`orchestration.progress.expected_time.Estimate`. The first one counts.
        shared_drivers: Drivers that pipelines share, a
            :class:`spark_jobs.launch.places.shared.SharedDrivers`. The first one counts.
        shared_job: Function that runs a driver which pipelines share, inside Spark: of its folder,
            its settings, the name of the pipeline that started it, and an event that ends it, to
            the exit status.
        ordered_merging: Function that returns how a sink with ``sequence`` or ``history`` merges,
            from a loaded pipeline, the target's folder and the generation: a
            :class:`spark_jobs.inside.sink.merging.merge_strategy.Merging`. The first one counts.
            Called in the driver.
        jars: Function that downloads the jars of a set, as
            :func:`hybrid_extensions.maven.download.download`. The first one counts.
        class_archive: Archive of the classes that drivers load, a
            :class:`spark_jobs.jvm.installed_archive.ClassArchive`. The first one counts.
        registered_values: Decoders of values with schemas of a registry, a
            :class:`sources.decoding.registered_values.RegisteredValues`.
        groups: Function from a path to the
            :class:`orchestration.defs.pipeline_group.PipelineGroup` that the file declares, or to
            None. Called for each file of a Dagster code location.
        group_commands: Function of the words of a command line after ``hybrid``, and of what runs
            such words for one pipeline, that acts on all pipelines of a file that it knows, and
            returns the exit status; None, with nothing done, if no such file is named. Called at
            each start of ``hybrid``.
        whole_file_commands: Names of its commands that act on a file with ``tables`` as a whole;
            any other command is run for each table of it.
        tables_definitions: Function from a
            :class:`hybrid_extensions.cdc.tables.template.Template` and the loaded pipelines of its
            tables to Dagster definitions for the file as a whole.
        location_definitions: Function from all loaded pipelines of a Dagster code location to
            definitions for them together.
        merging: Function from a loaded pipeline and a
            :class:`spark_jobs.inside.sink.merging.merge_strategy.Merging` to the one that its query
            uses in place of it. Called in the driver.
        services: Services that run Spark drivers, a sequence of
            :class:`sources.config.managed_service.ManagedService`.
        lakes: Kinds of tables that are read as history, a sequence of
            :class:`sources.files.tables.lake.Lake` or ``FollowedTables``.
        databases: Kinds of databases whose tables are captured, a sequence of
            :class:`sources.config.database_kind.DatabaseKind`.
        stores: Kinds of stores of files, a sequence of
            :class:`sources.storage.store_kind.StoreKind`.
        clusters: Clusters that ``spark-submit`` hands drivers over to, a sequence of
            :class:`spark_jobs.launch.places.cluster.Cluster`.
        jobs: Jobs among its definitions that messages and the page of a pipeline's table name, a
            sequence of :class:`orchestration.defs.jobs.added_jobs.AddedJob`.
        sources: Mapping from values of a source's ``type`` to kinds of sources, each a subclass of
            :class:`sources.config.source.added_source.AddedSource`, such as those that are exported
            to files (:class:`sources.config.source.exported_source.ExportedSource`).
        scaffolder: What ``dg scaffold defs`` writes a pipeline's component with, a subclass of
            ``dagster.Scaffolder``.
        audit: Audit of a pipeline's table, an
            :class:`orchestration.comparison.installed_audit.Audit`.
        captured_tables: What asks captured databases about their tables, in drivers, too: a
            :class:`sources.captured_tables.CapturedTables`. The first one counts.
        capture: What copies and follows database tables, an
            :class:`orchestration.capture.interface.Capture`. The first one counts.
        arrival_order: Function that divides files into intervals of arrival, as
            :func:`sources.files.listing.source_listing.by_arrival`. The first one counts.
        copied_files: Function that plans which files are copied into the target, as
            :func:`sources.planning.files.copied_files.plan_copies`. The first one counts.
        copying_sink: Function that returns the sink which copies them, as
            :func:`spark_jobs.inside.query.added_sinks.copying_sink`. The first one counts.
        catalog_entry: Function that returns the target's entry in the catalog of Spark's session,
            as :func:`spark_jobs.inside.query.added_sinks.catalog_entry`. The first one counts.
        catalog_place: Function that returns the folder of a Delta table in that catalog, from a
            Spark session, the name of a source and that of the table. The first one counts.
        later_columns: Function that changes the target as the source's columns have changed, as
            :func:`spark_jobs.inside.sink.later_columns.follow_later_columns`. Called in the driver.
        transform_checks: Function that refuses a transform, as
            :func:`spark_jobs.inside.query.transform.result_checks.require_fitting`. Called in the
            driver, and while planning.
        waiting_driver: Function that returns a driver which is started in advance, as
            :func:`spark_jobs.launch.waiting_driver.waiting_driver`. The first one counts.
        alerts: Function that posts an :class:`orchestration.supervision.webhook.Alert` to a
            pipeline's webhook, and returns why that failed, as a phrase without the URL; or None.
            Raises nothing. The first one counts.
        replacement: Replacement of whole tables by other generations, an
            :class:`orchestration.defs.jobs.replacement.Replacement`. The first one counts.
        lost_state: What people can do if checkpoint or state of a table are lost: a text.
    """

    name: str
    section: str | None = None
    commands: str | None = None
    definitions: str | None = None
    chain_assets: tuple[str, ...] = ()
    status: str | None = None
    steps: str | None = None
    actions: str | None = None
    value_formats: str | None = None
    groups: str | None = None
    group_commands: str | None = None
    whole_file_commands: tuple[str, ...] = ()
    tables_definitions: str | None = None
    location_definitions: str | None = None
    merging: str | None = None
    services: str | None = None
    lakes: str | None = None
    databases: str | None = None
    stores: str | None = None
    clusters: str | None = None
    sources: str | None = None
    jobs: str | None = None
    scaffolder: str | None = None
    audit: str | None = None
    file_formats: str | None = None
    transform_analysis: str | None = None
    held_offsets: str | None = None
    estimate: str | None = None
    shared_drivers: str | None = None
    shared_job: str | None = None
    ordered_merging: str | None = None
    jars: str | None = None
    class_archive: str | None = None
    registered_values: str | None = None
    expressions: str | None = None
    arrival_order: str | None = None
    copied_files: str | None = None
    copying_sink: str | None = None
    catalog_entry: str | None = None
    catalog_place: str | None = None
    later_columns: str | None = None
    transform_checks: str | None = None
    waiting_driver: str | None = None
    alerts: str | None = None
    replacement: str | None = None
    lost_state: str | None = None
    captured_tables: str | None = None
    capture: str | None = None


@cache
def extensions() -> tuple[Extension, ...]:
    """Return all installed extensions: the project's own, then those of entry points, each by name.

    Looked up once per process.

    Raises:
        InputError: An extension can't be loaded, is not an :class:`Extension`, or has the name of
            another one.
    """
    found = dict[str, Extension]()
    others = sorted(entry_points(group=GROUP), key=lambda each: each.name)
    for point in [*_own(), *others]:
        extension = _loaded(point)
        if extension.name in found:
            message = f"Two extensions have the name `{extension.name}`; one is {point.value}."
            raise InputError(message, f"Uninstall one of them, such as {_origin(point)}.")
        found[extension.name] = extension
    return tuple(found.values())


def contributions(what: str) -> Iterator[Any]:
    """Import and yield what each extension adds at one place, if it adds anything there.

    In the order of :func:`extensions`; nothing is yielded if no extension adds anything. Each is
    imported once the iteration reaches it.

    Args:
        what: The place: name of a field of :class:`Extension`, such as ``commands``.

    Raises:
        InputError: An extension, or what it names, can't be loaded.
    """
    for each in extensions():
        if (name := getattr(each, what)) is None:
            continue
        try:
            found = resolve_name(name)
        except (ImportError, AttributeError) as error:
            message = f"Extension `{each.name}` can't be loaded: it names {name} ({error})."
            hint = "Install what it needs, or correct or uninstall the extension."
            raise InputError(message, hint) from error
        yield found


def items_added(what: str) -> Iterator[Any]:
    """Yield the single items of a place where each extension adds a sequence, such as ``lakes``.

    Args:
        what: The place: name of such a field of :class:`Extension`.

    Raises:
        InputError: As of :func:`contributions`.
    """
    for added in contributions(what):
        yield from added


def none_adds(does: str, otherwise: str, **about: Any) -> InputError:
    """Return an InputError, for the caller to raise: no installed extension does what is needed.

    For example because a declaration names a kind of database that no installed extension knows.

    Args:
        does: End of the message "No installed extension …": a verb with its object.
        otherwise: End of the hint "Install the extension that does, …; or …": another way out.
        about: Fields of the error, such as ``value``, as in :class:`sources.errors.ErrorFields`.
    """
    hint = f"Install the extension that does, or restore its folder in `{FOLDER}`; or {otherwise}."
    return InputError(f"No installed extension {does}.", hint, **about)


def required(what: str, does: str, otherwise: str, **about: Any) -> Any:
    """Import and return what the first extension adds at a place that can't be done without.

    Args:
        what: The place, as of :func:`contributions`.
        does: As of :func:`none_adds`, like the arguments after it.
        otherwise: Another way out.
        about: Fields of the error.

    Raises:
        InputError: No installed extension adds anything there, or as of :func:`contributions`.
    """
    for found in contributions(what):
        return found
    raise none_adds(does, otherwise, **about)


def distribution_of(kind: object) -> str:
    """Return in words, for messages, the installed distribution that defines a class or object.

    Such as "the distribution `name`"; "the module `name`" if no distribution contains it.

    Args:
        kind: The class, or an object of it.
    """
    module = str(getattr(kind, "__module__", "") or type(kind).__module__)
    names = packages_distributions().get(module.partition(".")[0], [])
    return f"the distribution `{names[0]}`" if names else f"the module `{module}`"


def _own() -> Iterator[EntryPoint]:
    spec = find_spec(FOLDER)
    for module in iter_modules([] if spec is None else spec.submodule_search_locations):
        if module.ispkg:
            yield EntryPoint(module.name, f"{FOLDER}.{module.name}:{_CONSTANT}", GROUP)


def _loaded(point: EntryPoint) -> Extension:
    hint = f"Correct or uninstall {_origin(point)}."
    try:
        found = point.load()
    except Exception as error:
        message = f"Extension `{point.name}` can't be loaded from {point.value}: {error}."
        raise InputError(message, hint) from error
    if not isinstance(found, Extension):
        message = (
            f"Extension `{point.name}`: {point.value} is not a `sources.extensions.Extension`."
        )
        raise InputError(message, hint)
    return found


def _origin(point: EntryPoint) -> str:
    """Return in words what to uninstall: a distribution, or a package of the project's folder."""
    if point.dist is None:
        return f"the package `{point.module}`"
    return f"the distribution `{point.dist.name}`, which names it in `{GROUP}`"
