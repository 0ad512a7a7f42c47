"""Training sets: the values of a table that were known at the times of labels.

Removable: nothing else but its command imports it.
"""
