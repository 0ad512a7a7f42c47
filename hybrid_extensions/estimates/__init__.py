"""Estimates of how long a plan takes, by earlier runs or by the speeds that benchmarks measured."""

from sources.extensions import Extension

EXTENSION = Extension("estimates", estimate="hybrid_extensions.estimates.estimate:estimate")
