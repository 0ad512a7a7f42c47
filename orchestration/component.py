"""A pipeline as a component of any Dagster project: a folder with its file and its functions.

``defs/orders/defs.yaml`` next to ``orders.yaml``::

    type: orchestration.component.HybridPipeline
    attributes: {pipeline: orders.yaml}
"""

import dagster as dg

from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import load_pipeline


class HybridPipeline(dg.Component, dg.Model, dg.Resolvable):
    """One table from files and then Kafka: history is loaded once, then kept up to date.

    Attributes:
        pipeline: The pipeline's file, relative to the component's folder.
    """

    pipeline: str

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return all definitions of the pipeline.

        Raises:
            InputError: Its file can't be read or is invalid.
        """
        return pipeline_definitions(load_pipeline(context.path / self.pipeline))
