"""Analysis in Spark: a transform applied to no rows, and its analyzed plan.

Belongs here: which columns a transform returns, from which input columns each comes, and the
windows of event time that it groups by; why a transform can't run.
"""
