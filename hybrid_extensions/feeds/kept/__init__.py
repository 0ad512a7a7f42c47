"""What a feed has delivered and when, kept in a Delta table, and compared with training.

Belongs here: the table of deliveries, how each gets into it exactly once, and what a look-up in the
sink would have found at a moment. Does not belong here: how rows reach a sink.
"""
