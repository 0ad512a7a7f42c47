"""Spark's part of shared drivers: the driver that pipelines share.

Belongs here: which session and thread a pipeline gets, and when the driver ends.
"""
