"""Benchmark of the same work by the project and by Flink; ``pom.xml`` is Flink's part."""
