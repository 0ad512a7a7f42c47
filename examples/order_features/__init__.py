"""Features of orders, from three inputs over two tables to a training set: `make demo-features`.

The pipelines are in `pipelines`; what is in `proof` shares no code with them.
"""
