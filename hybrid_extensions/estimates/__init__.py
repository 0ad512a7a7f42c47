"""Estimates of how long a plan takes, by earlier runs or by the speeds that benchmarks measured.

Belongs here: which speed is assumed of a source that was never read, and how many cores count.
"""

from sources.extensions import Extension

EXTENSION = Extension("estimates", estimate="hybrid_extensions.estimates.estimate:estimate")
