"""What the demo of features does in its folder: commands, runs of Dagster, runs that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

import dagster as dg

from examples.demo import console
from examples.killed_drivers import committed, is_in_a_batch, kill_driver
from examples.order_features import data
from sources.config.loader import load_pipeline
from sources.errors import RunError


def hybrid(folder: Path, *arguments: str) -> None:
    """Show a command, and run it in a folder.

    Raises:
        RunError: It fails.
    """
    _succeed(folder, [_program("hybrid"), *arguments])


def run_with_kill(folder: Path, pipeline: str) -> None:
    """Run a pipeline, kill its driver in the first micro-batch of history, and run it again.

    Raises:
        RunError: The second run fails.
    """
    loaded = load_pipeline(folder / pipeline)
    killer = Thread(target=kill_driver, args=(loaded, is_in_a_batch), daemon=True)
    killer.start()
    code = _call(folder, [_program("hybrid"), "run", pipeline])
    killer.join()
    console.print(f"          `hybrid run {pipeline}` ended with status {code}")
    hybrid(folder, "run", pipeline)


def kill_live(folder: Path, pipeline: str, after: int) -> None:
    """Kill a live driver once it has committed a micro-batch after a number, and run it again.

    Args:
        folder: Folder of the pipelines' files.
        pipeline: File of the pipeline.
        after: Number of the micro-batch, such as the last one before more records came.

    Raises:
        RunError: No micro-batch comes, or the run that follows fails.
    """
    loaded = load_pipeline(folder / pipeline)
    kill_driver(loaded, lambda _: committed(loaded) > after)
    hybrid(folder, "run", pipeline)


def launch_set(folder: Path, key: Sequence[str]) -> None:
    """Materialize all days of a training set by Dagster, and show what its checks found.

    Args:
        folder: Folder of the pipelines' files; Dagster's own is next to it.
        key: Key of the set's asset.

    Raises:
        RunError: The run fails, or a check did not pass.
    """
    home = folder.parent / "dagster"
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\nnux: {enabled: false}\n")
    os.environ.update(DAGSTER_HOME=str(home), HYBRID_PIPELINES=str(folder))
    days = f"{data.BEGIN:%Y-%m-%d}...{data.END:%Y-%m-%d}"
    of = ["--assets", "/".join(key), "--partition-range", days]
    _succeed(folder, [_program("dg"), "launch", "-m", "orchestration.definitions", *of])
    asset = dg.AssetKey(key)
    with dg.DagsterInstance.get() as instance:
        (made,) = instance.fetch_materializations(asset, limit=1).records
        found = instance.get_records_for_run(
            made.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION
        ).records
    checks = [
        each.event_log_entry.get_dagster_event().asset_check_evaluation_data for each in found
    ]
    for check in checks:
        sign = "passed" if check.passed else "failed"
        console.print(f"          check {check.check_name}: {sign}. {check.description}")
    if not checks or not all(each.passed for each in checks):
        message = f"A check of {asset.to_user_string()} did not pass."
        raise RunError(message, f"Look at its page: `dg dev`, with DAGSTER_HOME={home}.")


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _call(folder: Path, command: Sequence[str]) -> int:
    """Show a command, run it in a folder, and return its exit status."""
    console.print(f"[bold]$ {Path(command[0]).name} {' '.join(command[1:])}[/]")
    return subprocess.run(command, cwd=folder, check=False).returncode


def _succeed(folder: Path, command: Sequence[str]) -> None:
    code = _call(folder, command)
    if code != 0:
        text = " ".join([Path(command[0]).name, *command[1:]])
        message = f"`{text}` ended with status {code}."
        raise RunError(message, f"Look at what it said, then repeat it in {folder}.")
