"""JSON objects in records, decoded in batches or one by one.

Belongs here: which objects are decoded in batches and which one by one, and which value fits a
column.
"""
