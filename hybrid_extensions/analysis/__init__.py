"""Analysis of transforms while planning: their output, its lineage, and windows of event time.

Belongs here: what Spark's analyzed plan tells of a transform before anything runs. Does not belong
here: the document that keeps it (`sources.planning.transform_analysis`), and the process that asks
(`spark_jobs.analysis_job`).
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "analysis", transform_analysis="hybrid_extensions.analysis.spark.analyze:analyze"
)
