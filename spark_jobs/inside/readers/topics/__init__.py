"""Reading of topics in Spark: raw records, their parsing, and checks of their rows.

Belongs here: which records are bad and what becomes of them; what Arrow, Python and Spark each
parse; which micro-batches the driver reads by itself; and the end of a micro-batch.
"""
