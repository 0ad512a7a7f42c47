"""Submission to Spark: command, settings, addresses, and the code that goes along.

Belongs here: `spark-submit` (`submit`), and what it needs. Does not belong here: how a submitted
driver is seen and ended (`launch.places`).
"""
