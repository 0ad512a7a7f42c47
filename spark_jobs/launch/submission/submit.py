"""The `spark-submit` command of a launch: jars, environment, temporary folder, container image."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from sources.common.environment import is_set
from sources.config.document.variables_in_texts import variables_used
from sources.config.document.yaml_document import of_jobs, read_document
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.state.generation import Generation
from spark_jobs.jvm.installed_archive import with_archive
from spark_jobs.jvm.jar_sets import excludes, packages
from spark_jobs.jvm.jars import resolve
from spark_jobs.jvm.java import spark_environment
from spark_jobs.jvm.spark_version import spark_home, version_at
from spark_jobs.jvm.storage_jar import JAR
from spark_jobs.launch.launch_record import Place, application_name
from spark_jobs.launch.places.choice import driver_place
from spark_jobs.launch.places.cluster import cluster_at
from spark_jobs.launch.submission.addresses import ui_environment
from spark_jobs.launch.submission.code_archive import write_code_archive
from spark_jobs.launch.submission.spark_properties import (
    PACKAGE,
    needs_own_jar,
    python_path,
    spark_properties,
    store_names,
    uses_store,
    variable_prefixes,
)

_MODULES = "modules.zip"
# What a driver that lives for seconds and runs no task does without.
_BRIEF = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.eventLog.enabled": "false",
    "spark.ui.enabled": "false",
}


def scratch_folder(launch_id: str) -> Path:
    """Return the path of a launch's folder for temporary files on this machine; not created.

    Args:
        launch_id: Identifier of the launch, which is part of the name.
    """
    return Path(tempfile.gettempdir()) / f"hybrid-{launch_id}"


def claim_scratch(scratch: Path, generation: Generation) -> None:
    """Mark a scratch folder as that of a generation's launch, and delete those of earlier ones.

    Raises:
        OSError: The folder can't be written.
    """
    for left in scratch_folders(generation):
        shutil.rmtree(left, ignore_errors=True)
    (scratch / generation.info.transaction_id).touch()


def scratch_folders(generation: Generation) -> list[Path]:
    """Return the folders for temporary files of a generation's launches on this machine.

    Empty if none is left. A launch that was killed leaves its folder; the next launch removes it.
    """
    marks = f"{scratch_folder('*').name}/{generation.info.transaction_id}"
    return [mark.parent for mark in Path(tempfile.gettempdir()).glob(marks)]


def command(
    loaded: LoadedPipeline,
    sources: Sequence[str],
    launch_id: str,
    generation: str | None = None,
) -> list[str]:
    """Return the ``spark-submit`` command that runs sources of a pipeline, one after the other.

    Jars that are not in the cache are downloaded first, except for Kubernetes, where the driver
    downloads them.

    Args:
        loaded: The pipeline.
        sources: Names of the sources, in order.
        launch_id: Identifier of the launch.
        generation: Name of the generation that it is for; None for the one that is the
            newest when the job starts.

    Raises:
        InputError: A driver on a cluster would lack an environment variable that the pipeline's
            file refers to; Java or Spark is missing; or a jar can't be downloaded.
    """
    place = driver_place(loaded.pipeline.spark)
    job = job_arguments(loaded, sources, launch_id, generation)
    application = application_name(launch_id)
    return submit_command(loaded, place, scratch_folder(launch_id), "job.py", job, application)


def waiting_command(loaded: LoadedPipeline, launch_id: str) -> list[str]:
    """Return the ``spark-submit`` command of a driver that waits on this machine for its run.

    Jars that are not in the cache are downloaded first.

    Args:
        loaded: The pipeline.
        launch_id: Identifier of the launch that the driver is for.

    Raises:
        InputError: Java or Spark is missing, or a jar can't be downloaded.
    """
    scratch = scratch_folder(launch_id)
    return submit_command(
        loaded, Place(), scratch, "waiting_job.py", ["--folder", str(scratch)], ""
    )


def job_arguments(
    loaded: LoadedPipeline,
    sources: Sequence[str],
    launch_id: str,
    generation: str | None = None,
) -> list[str]:
    """Return the command line arguments of ``job.py``, which reads sources one after the other.

    Args:
        loaded: The pipeline.
        sources: Names of the sources, in order.
        launch_id: Identifier of the launch.
        generation: Name of the generation that it is for; None for the one that is the
            newest when the job starts.

    Raises:
        InputError: ``SPARK_HOME`` is not set, and PySpark is not installed.
    """
    version = version_at(spark_home())
    return [
        "--pipeline",
        str(loaded.path),
        *(() if generation is None else ("--generation", generation)),
        *(part for name in sources for part in ("--source", name)),
        *("--launch-id", launch_id),
        *(("--spark", version) if version is not None else ()),
    ]


def submit_command(
    loaded: LoadedPipeline,
    place: Place,
    scratch: Path,
    script: str,
    arguments: Sequence[str],
    application: str,
) -> list[str]:
    """Return the ``spark-submit`` command of one of this project's jobs.

    Args:
        loaded: The pipeline.
        place: Where the driver runs.
        scratch: Folder for temporary files of the launch.
        script: Name of the job's file in the package :mod:`spark_jobs`.
        arguments: Arguments of the job.
        application: Name of the application on a cluster; empty on this machine.

    Raises:
        InputError: As :func:`command`.
    """
    cluster = cluster_at(place) if place.is_cluster else None
    if cluster is not None and cluster.has_image:
        conf, job, own_jars = image_parts(loaded, place, scratch)
        jars = ["--jars", *own_jars] if own_jars else []
    else:
        _require_variables(loaded, place)
        conf, sets = spark_properties(loaded, place, scratch), _sets(loaded)
        job = str(PACKAGE / script)
        own = [JAR.require()] if needs_own_jar(loaded) else []
        if place.kind == "local":
            conf = with_archive(spark_home(), resolve("spark"), conf)
        every = [*(jar for name in sets for jar in resolve(name)), *own]
        jars = ["--jars", ",".join(map(str, every))]
        if _shares_no_folder(loaded):
            conf = _with_modules(conf, scratch)
    if cluster is not None:
        conf |= cluster.conf(application)
    return [
        str(spark_home() / "bin" / "spark-submit"),
        *(part for key, value in conf.items() for part in ("--conf", f"{key}={value}")),
        *jars,
        job,
        *arguments,
    ]


def image_parts(
    loaded: LoadedPipeline, place: Place, scratch: Path
) -> tuple[dict[str, str], str, list[str]]:
    """Return Spark properties, job file and own jars of a driver in a container image.

    Such a driver gets no files from this machine: it finds the project in its image, and downloads
    jars itself.

    Args:
        loaded: The pipeline.
        place: Where the driver runs.
        scratch: Folder for temporary files of the launch.

    Returns:
        The Spark properties; the URL of the job's file; URLs of this project's own jars, if the
        pipeline needs any.

    Raises:
        InputError: The driver would lack an environment variable that the pipeline's file refers
            to, a set of JVM parts does not exist for the installed Spark, or the installed package
            lacks its own jar.
    """
    _require_variables(loaded, place)
    conf = {**_packages(_sets(loaded)), **spark_properties(loaded, place, scratch)}
    file = loaded.pipeline.spark.job_file or str(PACKAGE / "job.py")
    if not uses_store(loaded, "s3"):
        return conf, f"local://{file}", []
    JAR.require()
    # Where the project is installed in the image.
    jar = PurePosixPath(file).parent / JAR.path.relative_to(PACKAGE).as_posix()
    return conf, f"local://{file}", [f"local://{jar}"]


def local_spark_environment(loaded: LoadedPipeline, scratch: Path) -> dict[str, str]:
    """Return the environment of a Python process that analyzes the transform on this machine.

    Spark is set up as for a run, but always inside that process's own JVM, wherever runs go. Jars
    that are not in the cache are downloaded first.

    Args:
        loaded: The pipeline.
        scratch: Folder for temporary files, which exists.

    Raises:
        InputError: Java or Spark is missing, or a jar can't be downloaded.
    """
    pipeline, home = loaded.pipeline, spark_home()
    here = {"master": "local[1]", "deploy_mode": "client", "driver_memory": "1g"}
    settings = pipeline.spark.model_copy(update={**here, "conf": {**pipeline.spark.conf, **_BRIEF}})
    local = replace(loaded, pipeline=pipeline.model_copy(update={"spark": settings}))
    conf = with_archive(home, resolve("spark"), spark_properties(local, Place(), scratch))
    jars = [jar for name in _sets(loaded) for jar in resolve(name)]
    jars += [JAR.require()] if needs_own_jar(local) else []
    words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    words += ["--jars", ",".join(map(str, jars)), "pyspark-shell"]
    made = {**environment(loaded, scratch), "PYSPARK_SUBMIT_ARGS": shlex.join(words)}
    if "SPARK_HOME" in os.environ:
        # As `spark-submit` does: the Python part of that Spark comes before the installed one.
        parts = [home / "python", *(home / "python" / "lib").glob("py4j-*-src.zip")]
        made["PYTHONPATH"] = os.pathsep.join([*map(str, parts), made["PYTHONPATH"]])
    return made


def prepare_scratch(loaded: LoadedPipeline, scratch: Path) -> None:
    """Create the scratch folder of a launch, with the archive of modules that executors need.

    Args:
        loaded: The pipeline.
        scratch: The folder (:func:`scratch_folder`), which does not exist yet.

    Raises:
        InputError: The pipeline's modules are too large to be sent to executors.
        OSError: The folder can't be written.
    """
    scratch.mkdir(mode=0o700, parents=True)
    if _shares_no_folder(loaded):
        write_code_archive(loaded.code, scratch / _MODULES)


def _with_modules(conf: dict[str, str], scratch: Path) -> dict[str, str]:
    """Return properties that also send the archive of modules to each executor's folder.

    Executors look there last: where they see the pipeline's folder, they use that one.
    """
    path, files = "spark.executorEnv.PYTHONPATH", conf.get("spark.files")
    every = [str(scratch / _MODULES), *([files] if files else [])]
    parts = [*([conf[path]] if path in conf else []), _MODULES]
    return {**conf, "spark.files": ",".join(every), path: os.pathsep.join(parts)}


def _shares_no_folder(loaded: LoadedPipeline) -> bool:
    """Return whether executors need the pipeline's modules, and may not see its folder."""
    spark = loaded.pipeline.spark
    # A shared driver sends what is in them by value.
    has_no_need = spark.master.startswith("local") or spark.driver == "shared"
    return not (has_no_need or loaded.state.is_local or loaded.target.is_local)


def _packages(sets: list[str]) -> dict[str, str]:
    """Return the properties by which a driver in a container image fetches the JVM parts."""
    return {
        "spark.jars.packages": ",".join(packages(name) for name in sets),
        "spark.jars.excludes": excludes(*sets),
        # The user of a pod may have no home folder.
        "spark.jars.ivy": "/tmp/.ivy2",
    }


def _require_variables(loaded: LoadedPipeline, place: Place) -> None:
    """Refuse a launch whose driver would read other values from the pipeline's file."""
    prefixes = variable_prefixes(place)
    conf = loaded.pipeline.spark.conf
    if not place.is_cluster:
        return
    for name in variables_used(of_jobs(read_document(loaded.path))):
        if not any(is_set(f"{prefix}{name}", conf) for prefix in prefixes):
            message = (
                f"{loaded.path.name} reads the environment variable {name}, but `spark.conf` does "
                "not pass it to the driver on the cluster, which reads the file, too. Nothing was "
                "launched."
            )
            hint = f"Set `{prefixes[0]}{name}` in `spark.conf`, or remove it from the file."
            raise InputError(message, hint, field="spark.conf", value=name)


def _sets(loaded: LoadedPipeline) -> list[str]:
    """Return the names of the sets of jars that a pipeline's driver needs."""
    topics = loaded.pipeline.topics
    by_iam = any(each.security and each.security.mechanism == "AWS_MSK_IAM" for each in topics)
    return ["spark", *store_names(loaded), *(["msk"] if by_iam else [])]


def environment(loaded: LoadedPipeline, scratch: Path) -> dict[str, str]:
    """Return the environment variables of ``spark-submit``, in addition to this process's.

    They name the Java and Spark to use, this Python for driver and workers, the folders of the
    pipeline's code on ``PYTHONPATH``, the launch's folder for temporary files, and the address of
    the UI of a local driver.

    Args:
        loaded: The pipeline.
        scratch: Folder for temporary files of the launch.

    Raises:
        InputError: There is no Java, or too old a one.
    """
    return {**shared_environment(loaded, scratch), "PYTHONPATH": python_path(loaded)}


def shared_environment(loaded: LoadedPipeline, scratch: Path) -> dict[str, str]:
    """Return the environment of a shared driver, with no folder of a pipeline's code.

    Args:
        loaded: One of the pipelines.
        scratch: Folder for temporary files of the driver.

    Raises:
        InputError: There is no Java, or too old a one.
    """
    settings = loaded.pipeline.spark
    return {
        **spark_environment(spark_home()),
        **ui_environment(settings.master, settings.conf),
        "TMPDIR": str(scratch),
    }
