"""Tests of transforms: whether a transform gives the same table wherever history ends.

Belongs here: which rows, places of the seam and results are compared, and which session is
accepted.

A pipeline applies one transform to history and to what follows it live. These tools run it on rows
of a test, over every place where the seam may lie, by the query, checkpoint and sink of a real run:

- :func:`hybrid_testing.seam.across_seam`, the assertion;
- :func:`hybrid_testing.strategies.rows_of`, rows at random, by Hypothesis;
- ``hybrid_spark``, a fixture that pytest finds by itself (:mod:`hybrid_testing.plugin`).

Nothing else of the project imports this package.
"""
