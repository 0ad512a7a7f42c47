"""Order of arrival: history read in the micro-batches of a live run (`order` by arrival)."""

from sources.extensions import Extension

EXTENSION = Extension(
    "arrival_order", arrival_order="hybrid_extensions.arrival_order.intervals:in_order_of_arrival"
)
