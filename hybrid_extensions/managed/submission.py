"""Submission of drivers to managed services: which stores these reach; sent twice, one run.

``python -m hybrid_extensions.managed.submission FILE`` takes the place of ``spark-submit``: a
process that holds the launch lock until the service has the driver, prints into the run's log, and
ends.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hybrid_extensions.managed.launcher import SUBMITTED, ManagedLauncher, service_at
from hybrid_extensions.managed.services import DatabricksService
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, InputError
from spark_jobs.launch.launch_record import Place, application_name
from spark_jobs.launch.places.managed import HandOver
from spark_jobs.launch.submission import submit

_FILE = "request.json"
_OF_SPARK_SUBMIT = ("spark.master", "spark.submit.deployMode")
STORES = {"emr-serverless": ("s3://",), "databricks": ("abfss://",)}
"""By kind of service: what the addresses of stores begin with that its drivers reach."""


class Drivers:
    """Drivers on managed Spark (:class:`spark_jobs.launch.places.managed.ManagedDrivers`)."""

    def launcher(self, place: Place, log: Path) -> ManagedLauncher:
        """Return the launcher for drivers on the service.

        Args:
            place: The service.
            log: Output of the process that handed the driver over.
        """
        return ManagedLauncher(place, log)

    def hand_over(
        self,
        loaded: LoadedPipeline,
        place: Place,
        scratch: Path,
        sources: Sequence[str],
        launch_id: str,
        generation: str,
    ) -> HandOver:
        """Prepare a launch; nothing is sent or written.

        Args:
            loaded: The pipeline.
            place: The service.
            scratch: Folder for temporary files of the launch.
            sources: Names of the sources, in order.
            launch_id: Identifier of the launch.
            generation: Name of the generation that it is for.

        Returns:
            What to call before the launch, and the command that hands the driver over.

        Raises:
            InputError: As :func:`request_of`.
        """
        request = request_of(loaded, place, scratch, sources, launch_id, generation)
        command = [sys.executable, "-m", __name__, str(scratch / _FILE)]
        return HandOver(partial(_prepare, loaded, place, request, scratch), command)


DRIVERS = Drivers()


def request_of(
    loaded: LoadedPipeline,
    place: Place,
    scratch: Path,
    sources: Sequence[str],
    launch_id: str,
    generation: str,
) -> dict[str, Any]:
    """Return the request that starts a driver on a managed service; nothing is sent.

    Args:
        loaded: The pipeline.
        place: The service.
        scratch: Folder for temporary files of the launch.
        sources: Names of the sources, in order.
        launch_id: Identifier of the launch.
        generation: Name of the generation that it is for.

    Raises:
        InputError: State or target are in a store that the service's drivers can't reach, or a
            declared field is not valid.
    """
    _require_stores(loaded, place)
    conf, file, jars = submit.image_parts(loaded, place, scratch)
    conf = {name: value for name, value in conf.items() if name not in _OF_SPARK_SUBMIT}
    arguments = submit.job_arguments(loaded, sources, launch_id, generation)
    name, declared = application_name(launch_id), loaded.pipeline.spark.service
    if place.kind == "databricks":
        return _of_databricks(name, file, arguments, conf, declared)
    from hybrid_extensions.managed import emr_serverless

    if jars:
        conf["spark.jars"] = ",".join(filter(None, (conf.get("spark.jars"), *jars)))
    return emr_serverless.request(name, [file, *arguments], conf, declared)


def _prepare(loaded: LoadedPipeline, place: Place, request: dict[str, Any], scratch: Path) -> None:
    """Make the folder of a launch, with the request for :func:`main`.

    It may hold values of environment variables, so only this user may read it.
    """
    submit.prepare_scratch(loaded, scratch)
    document = {"place": place.model_dump(), "request": request}
    (scratch / _FILE).write_text(json.dumps(document))


def main(arguments: Sequence[str]) -> int:
    """Send a request from a file, and print the id of the run that it started.

    A request that is sent again, such as after an answer that was lost, starts no second run.

    Args:
        arguments: Path of the file.

    Returns:
        Exit status: 0 if the service has the driver; 2 if it has not, or does not say so, with the
        error on stderr.
    """
    document = json.loads(Path(arguments[0]).read_text())
    place = Place.model_validate(document["place"])
    try:
        service = service_at(place)
        sys.stdout.write(SUBMITTED.format(service.submit(document["request"]), service.name) + "\n")
    except HybridError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 2
    return 0


def _of_databricks(
    name: str, file: str, arguments: list[str], conf: dict[str, str], declared: dict[str, Any]
) -> dict[str, Any]:
    from hybrid_extensions.managed import databricks

    excluded = conf.pop("spark.jars.excludes").split(",")
    packages = conf.pop("spark.jars.packages").split(",")
    conf.pop("spark.jars.ivy")
    libraries = [
        {"maven": {"coordinates": each, "exclusions": excluded}} for each in packages if each
    ]
    prefix = DatabricksService.environment
    variables = {key: conf.pop(key) for key in list(conf) if key.startswith(prefix)}
    cluster = declared["new_cluster"]
    of_cluster = {key.removeprefix(prefix): value for key, value in variables.items()}
    environment = {**of_cluster, **cluster.get("spark_env_vars", {})}
    service = {**declared, "new_cluster": {**cluster, "spark_env_vars": environment}}
    job = [file.removeprefix("local://"), *arguments]
    return databricks.request(name, job, conf, libraries, service)


def _require_stores(loaded: LoadedPipeline, place: Place) -> None:
    """Refuse a state or a target that a service's driver can't reach, or can't write safely.

    Databricks reads S3 with a client of its own, which does not use this project's log store: of
    two drivers, one would lose its commits.
    """
    schemes = STORES[place.kind]
    for field, folder in (("state", loaded.state), ("sink.path", loaded.target)):
        if not folder.url.startswith(schemes):
            is_s3 = folder.url.startswith("s3://")
            message = (
                f"`{field}` is {folder.url}, which a driver of `master: "
                f"{loaded.pipeline.spark.master}` can't {'write safely' if is_s3 else 'reach'}. "
                "Nothing was started."
            )
            hint = f"Use a path that begins with `{schemes[0]}` for state and target."
            raise InputError(message, hint, field=field, value=folder.url)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
