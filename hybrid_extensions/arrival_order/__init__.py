"""Order of arrival: history read in the micro-batches of a live run (`order` by arrival).

Belongs here: in which interval of arrival each row of history is read, and so which rows share a
micro-batch.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "arrival_order", arrival_order="hybrid_extensions.arrival_order.intervals:in_order_of_arrival"
)
