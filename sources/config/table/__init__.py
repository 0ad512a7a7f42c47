"""Declaration of what concerns the target table: sink, rules, reruns, comparisons.

Belongs here: how rows are written (`sink`), what has to be true of each (`rules`), which share is a
sample, and how ranges of time are declared.
"""
