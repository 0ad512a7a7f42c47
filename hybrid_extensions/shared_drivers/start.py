"""Start of runs in a shared driver, which is started if need be; other settings are refused."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hybrid_extensions.shared_drivers.requests import (
    Answer,
    Request,
    RunRequest,
    ask,
    log_of,
    pid_of,
)
from sources.common.cache import make_private
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, RunError, UnavailableError
from sources.state.generation import digests
from sources.storage.folder import Folder
from spark_jobs.launch.launch_record import Place
from spark_jobs.launch.places.base import Order, start
from spark_jobs.launch.submission import spark_properties, submit
from spark_jobs.run_state import run_log
from spark_jobs.run_state.lock import take_lock

_START_S = 300.0
_POLL_S = 0.2
_TAIL_LINES = 25


def settings_of(loaded: LoadedPipeline) -> dict[str, str]:
    """Return digests of the settings that all pipelines of a shared driver must have in common.

    By field. Among them are master, memory, Spark and HDFS properties, stores, and the version of
    this project.
    """
    pipeline = loaded.pipeline
    spark = pipeline.spark
    stores = spark_properties.store_names(loaded)
    named: dict[str, object] = {
        "spark.master": spark.master,
        "spark.driver_memory": spark.driver_memory,
        **{f"spark.conf.{name}": value for name, value in spark.conf.items()},
        **{f"hdfs.conf.{name}": value for name, value in pipeline.hdfs.conf.items()},
        "stores (s3, azure, google) of the paths": stores,
        "installed version of this project": importlib.metadata.version("hybrid-backfill"),
    }
    if "s3" in stores:
        named["s3"] = pipeline.s3.model_dump(mode="json")
    return digests(named)


def _command(loaded: LoadedPipeline, scratch: Path, arguments: Sequence[str]) -> list[str]:
    """Return the ``spark-submit`` command of a driver that gets one of its pipelines' settings."""
    spark = loaded.pipeline.spark
    conf = {
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        **spark.conf,
        "spark.app.name": f"hybrid driver {spark.group}",
    }
    settings = spark.model_copy(update={"conf": conf})
    shared = replace(loaded, pipeline=loaded.pipeline.model_copy(update={"spark": settings}))
    return submit.submit_command(shared, Place(), scratch, "shared_job.py", arguments, "")


class SharedDriver:
    """The shared driver of a pipeline's group on this machine; making the object starts nothing.

    Args:
        loaded: The pipeline.
        folder: The driver's folder.
    """

    def __init__(self, loaded: LoadedPipeline, folder: Path) -> None:
        self._loaded = loaded
        self._folder = folder
        self._settings = settings_of(loaded)
        self._process: subprocess.Popen[bytes] | None = None

    def require(self) -> None:
        """Start the shared driver unless it runs; refuse a pipeline whose settings don't fit it.

        Called before a launch; no pipeline is run yet. Waits up to 300 s for the driver to come up.

        Raises:
            InputError: The driver runs other pipelines with other settings; or Java, Spark or a jar
                is missing.
            StateError: The driver's folder can't be written; transient if its disk is full.
            RunError: The driver ended while it started.
            UnavailableError: It does not come up, or does not answer.
        """
        self._ask(Request(fits=self._settings))

    def run(
        self,
        sources: Sequence[str],
        launch_id: str,
        generation: str,
        log: Path,
        environment: dict[str, str],
        descriptors: Sequence[int],
    ) -> int:
        """Submit a run to the shared driver, starting the driver if needed; return its process id.

        The id is that of this process if the driver has ended already.

        Args:
            sources: Names of the sources to be read one after the other.
            launch_id: Id of the launch.
            generation: Name of the generation that it is for.
            log: The run's log file; emptied first.
            environment: More environment variables of the launch.
            descriptors: File descriptors of the launch lock, which the driver then holds.

        Raises:
            InputError: The driver runs other pipelines with other settings; or Java, Spark or a jar
                is missing.
            StateError: The driver's folder can't be written; transient if its disk is full.
            RunError: The driver ended while it started.
            UnavailableError: It does not come up, or does not answer.
        """
        run_log.begin(log)
        run = RunRequest(
            pipeline=self._loaded.pipeline.name,
            file=str(self._loaded.path),
            sources=list(sources),
            launch_id=launch_id,
            generation=generation,
            log=str(log),
            settings=self._settings,
            environment={**os.environ, **environment},
        )
        self._ask(Request(run=run), descriptors)
        # If it has ended in the meantime, so has the run, as others will see.
        return pid_of(self._folder) or os.getpid()

    def _ask(self, request: Request, descriptors: Sequence[int] = ()) -> None:
        """Ask the driver until one answers, and start one if there is none."""
        deadline = time.monotonic() + _START_S
        while True:
            try:
                answer = ask(self._folder, request, descriptors)
            except TimeoutError:
                raise self._frozen() from None
            if answer is not None and not answer.differs:
                self._process = None
                return
            if answer is not None and not answer.is_ending:
                raise self._other_settings(answer)
            self._start()
            if time.monotonic() > deadline:
                raise self._absent()
            time.sleep(_POLL_S)

    def _start(self) -> None:
        """Start the driver, unless one is there: coming up, or not ended yet."""
        # With status 0 it had come up, and has ended in the meantime as it had no pipeline.
        if self._process is not None and (status := self._process.poll()):
            raise self._failed(status)
        make_private(self._folder)
        lock = take_lock(Folder(str(self._folder)), "driver")
        if lock is None:
            return
        try:
            prefix = f"hybrid-driver-{self._folder.name}-"
            for left in Path(tempfile.gettempdir()).glob(f"{prefix}{'[0-9a-f]' * 32}"):
                shutil.rmtree(left, ignore_errors=True)
            scratch = Path(tempfile.gettempdir()) / f"{prefix}{uuid.uuid4().hex}"
            scratch.mkdir(mode=0o700)
            arguments = ["--folder", str(self._folder), "--settings", json.dumps(self._settings)]
            arguments += ["--started-by", self._loaded.pipeline.name]
            command = _command(self._loaded, scratch, arguments)
            environment = submit.shared_environment(self._loaded, scratch)
            log = log_of(self._folder)
            order = Order(command, environment, self._folder, log, lock.descriptors)
            self._process = start(order)
        finally:
            lock.release()

    def _other_settings(self, answer: Answer) -> InputError:
        field, group = answer.differs[0], self._folder.name
        more = f" (and {len(answer.differs) - 1} more)" if len(answer.differs) > 1 else ""
        name, other = self._loaded.pipeline.name, answer.started_by
        message = (
            f"The shared driver `{group}` runs with the settings of pipeline `{other}`, as they "
            f"were when it started; those of `{name}` differ in `{field}`{more}. Nothing was "
            "started."
        )
        hint = (
            "Declare the same value in all pipelines of the driver, another `spark.group`, or "
            f"`spark.driver: own`. If `{name}` has the new value, stop the pipelines of the driver "
            f"({', '.join(answer.members)}) first: `hybrid stop P`."
        )
        return InputError(message, hint, pipeline=name, field=field, value=group)

    def _frozen(self) -> UnavailableError:
        pid = pid_of(self._folder)
        process = "" if pid is None else f", process {pid},"
        message = (
            f"The shared driver `{self._folder.name}`{process} does not answer, so nothing "
            "was started in it."
        )
        hint = "Try again."
        if pid is not None:
            hint += f" If the process hangs, end it: `kill -9 {pid}`; that ends all of its runs."
        return UnavailableError(message, hint, value=self._folder.name)

    def _absent(self) -> UnavailableError:
        message = (
            f"The shared driver `{self._folder.name}` did not come up within {_START_S:.0f} s, "
            f"though a process holds its lock {self._folder / 'driver.lock'}."
        )
        hint = (
            f"Look into {log_of(self._folder)}. If the process hangs (`fuser` shows its number), "
            "end it, then try again."
        )
        return UnavailableError(message, hint, value=self._folder.name)

    def _failed(self, status: int) -> RunError:
        lines = run_log.last_lines(log_of(self._folder), _TAIL_LINES)
        message = (
            f"The shared driver `{self._folder.name}` ended with status {status} while it "
            f"started. The last lines:\n{lines}"
        )
        hint = "Correct the cause, then try again; no pipeline was started."
        return RunError(message, hint, transient=True, value=self._folder.name)
