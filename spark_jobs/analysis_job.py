"""Analysis job: answers on stdout what plans ask Spark: a transform's result, tables' paths.

How a transform's result looks, and where tables are that are declared by their names. Started by
:mod:`spark_jobs.launch.questions.spark_process`, which writes requests to stdin and reads answers
from stdout; each is JSON in one line.
"""

from __future__ import annotations

import os
import sys
import tempfile

from pydantic import TypeAdapter
from pyspark.sql import SparkSession

from sources.config.loader import load_pipeline
from sources.errors import HybridError
from sources.extensions import required
from sources.planning.files.table_places import PlacesAnswer, PlacesRequest
from sources.planning.transform_analysis import AnalysisAnswer, AnalysisRequest
from sources.storage.folder import Folder
from spark_jobs.jvm.storage_jar import use_own_classes

_Request = AnalysisRequest | PlacesRequest
_REQUESTS: TypeAdapter[_Request] = TypeAdapter(_Request)


def main() -> None:
    """Start Spark, and answer analysis requests on stdin, one a line, on stdout until it ends."""
    # What Spark and the user's code print must not get into the answers.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        spark = SparkSession.builder.getOrCreate()
        use_own_classes(spark)
        for line in sys.stdin:
            answers.write(f"{answer(spark, line)}\n")
            answers.flush()


def answer(spark: SparkSession, question: str) -> str:
    """Answer a planner's question to Spark; question and answer are JSON in one line.

    An error of this project is part of the answer; any other is raised, as for a text that is no
    question.

    Args:
        spark: The Spark session.
        question: What :class:`spark_jobs.launch.questions.spark_process.SparkProcess` was asked.
    """
    request = _REQUESTS.validate_json(question)
    if isinstance(request, PlacesRequest):
        return _places(spark, request).model_dump_json()
    return _analysis(spark, request).model_dump_json()


def _analysis(spark: SparkSession, request: AnalysisRequest) -> AnalysisAnswer:
    try:
        with tempfile.TemporaryDirectory() as folder:
            loaded = load_pipeline(request.pipeline)
            does, otherwise = "analyzes transforms", "plan again: without it nothing is analyzed"
            analyze = required("transform_analysis", does, otherwise)
            return AnalysisAnswer(analysis=analyze(spark, loaded, request, Folder(folder)))
    except HybridError as error:
        return AnalysisAnswer(refusal=error.report())


def _places(spark: SparkSession, request: PlacesRequest) -> PlacesAnswer:
    try:
        source, name = next(iter(request.tables.items()))
        does, otherwise = "knows the catalog of Spark's session", "declare the table's `path`"
        place_of = required("catalog_place", does, otherwise, source=source, table=name)
        places = {source: place_of(spark, source, name) for source, name in request.tables.items()}
    except HybridError as error:
        return PlacesAnswer(refusal=error.report())
    return PlacesAnswer(places=places)


if __name__ == "__main__":
    main()
