"""Process that analyzes a pipeline's transform while its plan is made.

Started by :mod:`spark_jobs.launch.transform_check`, which writes one request to stdin and reads one
answer from stdout; both are JSON in one line.
"""

from __future__ import annotations

import os
import sys
import tempfile

from pyspark.sql import SparkSession

from sources.config.loader import load_pipeline
from sources.errors import HybridError
from sources.planning.transform_analysis import AnalysisAnswer, AnalysisRequest
from sources.storage.folder import Folder
from spark_jobs.jvm.storage_jar import use_own_classes
from spark_jobs.query.analysis import analyze


def main() -> None:
    """Start Spark, wait for the request, and answer it; without a request, just end."""
    # What Spark and the user's code print must not get into the answer.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        spark = SparkSession.builder.getOrCreate()
        use_own_classes(spark)
        if line := sys.stdin.readline():
            answer = _answer(spark, AnalysisRequest.model_validate_json(line))
            answers.write(answer.model_dump_json())


def _answer(spark: SparkSession, request: AnalysisRequest) -> AnalysisAnswer:
    try:
        with tempfile.TemporaryDirectory() as folder:
            loaded = load_pipeline(request.pipeline)
            return AnalysisAnswer(analysis=analyze(spark, loaded, request, Folder(folder)))
    except HybridError as error:
        return AnalysisAnswer(refusal=error.report())


if __name__ == "__main__":
    main()
