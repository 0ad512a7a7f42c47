"""What is submitted to Spark: command, settings, addresses, and the code that goes with it.

Belongs here: `spark-submit` (`submit`), jobs of managed Spark (`managed_submit`), and what both
need. Does not belong here: how a submitted driver is seen and ended (`launch.places`).
"""
