"""What is submitted to Spark: command, settings, addresses, and the code that goes with it.

Belongs here: `spark-submit` (`submit`), and what it needs. Does not belong here: how a submitted
driver is seen and ended (`launch.places`).
"""
