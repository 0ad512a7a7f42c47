"""Benchmark: the same work by the project and by Flink, in turns, on the same files and topic.

    python -m benchmarks.flink --rows 4000000 --rounds 5
    python -m benchmarks.flink --works topic windows
    python -m benchmarks.flink --profile windows

Needs Maven, which builds Flink's part. Each contender has two tasks and a heap of 4 GiB, and
commits about once a second, exactly once. ``files``, ``topic`` and ``windows`` are done by
processes that are warm; ``chain`` is a whole process each time. DuckDB compares each table with the
input. ``--profile`` records instead what the project's tasks spend their time on in a warm work.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.catch_up import STAGES
from benchmarks.flight_recorder import profile
from benchmarks.flink import flink_works
from benchmarks.flink.contender import Contender, whole_process
from benchmarks.flink.inputs import Inputs, prepare
from benchmarks.flink.pipelines import pipeline
from benchmarks.flink.results import files_of_delta, files_of_flink, require_right
from benchmarks.flink.switch_gap import delta_files, flink_files, gap
from benchmarks.record import record
from benchmarks.session import in_turns
from hybrid_extensions.servers.broker import LocalBroker

_STAGES = {
    "keeping state": (
        "org.apache.spark.sql.execution.streaming.state",
        "org.apache.spark.sql.execution.streaming.operators.stateful",
        "org.rocksdb",
    ),
    **STAGES,
}
_WARM = ("files", "topic", "windows")
_HYBRID = Path(sys.executable).with_name("hybrid")
# What a contender did: its cost, and more figures of a chain.
Round = dict[str, Any]


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", type=int, default=4_000_000, help="rows of the files, and new ones in the topic"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--works", nargs="+", choices=[*_WARM, "chain"], default=[*_WARM, "chain"])
    parser.add_argument(
        "--parser",
        choices=["binding", "own"],
        default="binding",
        help="how Flink reads JSON: by Jackson's data binding, as its own format does, or by a "
        "parser that is written for these rows alone",
    )
    parser.add_argument(
        "--profile", choices=_WARM, help="record a CPU profile of the project instead"
    )
    options = parser.parse_args()
    if options.profile is None:
        flink_works.build()
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name, LocalBroker() as broker:
        folder = Path(name)
        inputs = prepare(folder / "data", options.rows, broker.bootstrap_servers)
        if options.profile is not None:
            _profile(folder, inputs, options.profile)
            return
        if warm := [work for work in _WARM if work in options.works]:
            with ExitStack() as stack:
                contenders = _warm_contenders(stack, folder, inputs, options.parser)
                for work in warm:
                    # The first round warms up.
                    _measure(inputs, (work, options.parser), contenders, options.rounds, warm_up=1)
        if "chain" in options.works:
            chains = {
                "project": lambda _work, name: _project_chain(folder, inputs, name),
                "Flink": lambda _work, name: _flink_chain(folder, inputs, name, options.parser),
            }
            _measure(inputs, ("chain", options.parser), chains, options.rounds, warm_up=0)


def _warm_contenders(
    stack: ExitStack, folder: Path, inputs: Inputs, parser: str
) -> dict[str, Callable[[str, str], Round]]:
    """Start both contenders; return, by name, what does a piece of work into a named table."""
    project = stack.enter_context(_project(folder))
    flink = stack.enter_context(Contender(flink_works.command(), folder / "flink.log"))

    def by_project(work: str, name: str) -> Round:
        cost = project.work({"pipeline": str(pipeline(inputs, work, name).path)})
        require_right(inputs, work, files_of_delta(inputs.folder / name), "project")
        return asdict(cost)

    def by_flink(work: str, name: str) -> Round:
        cost = flink.work(flink_works.options(inputs, work, name, parser))
        require_right(inputs, work, files_of_flink(inputs.folder / name), "Flink")
        return asdict(cost)

    return {"project": by_project, "Flink": by_flink}


def _project(folder: Path) -> Contender:
    """Start a driver of the project."""
    command = [sys.executable, "-m", "benchmarks.flink.project_works", str(folder / "spark")]
    return Contender(command, folder / "project.log")


def _profile(folder: Path, inputs: Inputs, work: str) -> None:
    """Profile a warm work of the project, after a run that warms up; record and print it."""
    first, second = (pipeline(inputs, work, f"project_{number}").path for number in range(2))
    with _project(folder) as project:
        project.work({"pipeline": str(first)})
        done = profile(project.jvm_pid(), lambda: project.work({"pipeline": str(second)}), _STAGES)
    record(f"profile-flink-{work}", {"project": asdict(done)})
    sys.stdout.write(f"{json.dumps(asdict(done), indent=1)}\n")


def _project_chain(folder: Path, inputs: Inputs, name: str) -> Round:
    """Run the chain by the command, from its launch until all has been committed."""
    path, table = pipeline(inputs, "chain", name).path, inputs.folder / name
    command = [str(_HYBRID), "run", str(path), "--until", "caught-up"]
    cost, _ = whole_process(command, folder / "project.log")
    require_right(inputs, "chain", files_of_delta(table), "project")
    return {**asdict(cost), **asdict(gap(delta_files(table), inputs.rows))}


def _flink_chain(folder: Path, inputs: Inputs, name: str, parser: str) -> Round:
    """Run the chain as a cluster in a process of its own."""
    options, table = flink_works.options(inputs, "chain", name, parser), inputs.folder / name
    cost, printed = whole_process(flink_works.command(), folder / "flink.log", options)
    require_right(inputs, "chain", files_of_flink(table), "Flink")
    switched_at_ms = json.loads(printed)["switched_at_ms"]
    return {**asdict(cost), **asdict(gap(flink_files(table), inputs.rows, switched_at_ms))}


def _measure(
    inputs: Inputs,
    named: tuple[str, str],
    contenders: Mapping[str, Callable[[str, str], Round]],
    rounds: int,
    warm_up: int,
) -> None:
    """Let the contenders do a piece of work in turns; print and record what it cost.

    Args:
        inputs: Files and topic.
        named: Name of the work, and Flink's parser.
        contenders: By name, what does a piece of work into a named table.
        rounds: Number of rounds that count.
        warm_up: Number of rounds before them.
    """
    work, parser = named
    measured: dict[str, list[Round]] = {name: [] for name in contenders}
    for round_ in range(rounds + warm_up):
        for contender in in_turns(list(contenders), round_):
            name = f"{contender.lower()}_{work}_{round_}"
            result = contenders[contender](work, name)
            for made in inputs.folder.glob(f"*{name}*"):
                shutil.rmtree(made) if made.is_dir() else made.unlink()
            sys.stdout.write(f"{work}, {contender}: {json.dumps(result)}\n")
            sys.stdout.flush()
            if round_ >= warm_up:
                measured[contender].append(result)
    record(
        f"flink-{work}" + ("" if parser == "binding" else f"-{parser}"),
        {"rows": rows_of(inputs, work), "Flink": flink_works.version(), "rounds": measured},
    )


def rows_of(inputs: Inputs, work: str) -> int:
    """Return how many rows a contender reads, those of history that are in the topic twice."""
    rows = {"files": inputs.rows, "chain": inputs.rows + inputs.records_count}
    return rows.get(work, inputs.records_count)


if __name__ == "__main__":
    main()
