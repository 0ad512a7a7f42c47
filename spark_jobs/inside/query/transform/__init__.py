"""The pipeline's transform: loaded, analyzed by Spark, described, and judged."""
