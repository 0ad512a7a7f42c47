"""The same people, with Spark in this process: every row is read by the job's own code."""

from __future__ import annotations

from typing import Any, ClassVar

from pyspark.sql import SparkSession

from orchestration.catch_up import wait_until_caught_up
from sources.errors import HybridError
from sources.kept_definitions import in_service
from sources.planning.context import PipelineContext
from spark_jobs.launch import run_control
from tests.machine.people import People
from tests.machine.spark_driver import SparkMachine


class PeopleWithSpark(People):
    """People at work on one pipeline whose drivers are Spark's.

    Attributes:
        spark: The session; set before the machine runs.
    """

    spark: ClassVar[SparkSession]

    def make_machine(self) -> Any:
        # A rehearsal of the live query would take most of the time.
        self.world.always = {"switch": "cold"}
        self.restore_declaration()
        return SparkMachine(self.spark)

    def read_on(self) -> None:
        """Wait until live runs have read what has arrived."""
        try:
            for loaded in in_service(self.world.load()):
                context = PipelineContext.find(loaded)
                last = loaded.pipeline.sources[-1].name
                if context is not None and run_control.find_running(context.generation, last):
                    wait_until_caught_up(context)
        except HybridError:
            # It ended meanwhile: the next look says why.
            return
