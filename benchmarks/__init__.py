"""Benchmarks: the project against plain Spark, and how its costs grow with size.

Contenders take turns at the same work in the same Spark session. Each module is a command, such as
``python -m benchmarks.history``; :mod:`benchmarks.page` makes the page of all results.
"""
