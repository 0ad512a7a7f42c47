"""A pipeline as a component of any Dagster project: a folder with its file and its functions.

``defs/orders/defs.yaml`` beside ``orders.yaml``::

    type: orchestration.component.HybridPipeline
    attributes: {pipeline: orders.yaml}
"""

import dagster as dg

from orchestration.pipeline_definitions import pipeline_definitions
from sources.config.loader import load_pipeline


class HybridPipeline(dg.Component, dg.Model, dg.Resolvable):
    """Files, then the topic that goes on from there, as one table.

    Attributes:
        pipeline: Its file, from the component's folder on.
    """

    pipeline: str

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Everything of the pipeline.

        Raises:
            InputError: Its file can't be read, or is wrong.
        """
        return pipeline_definitions(load_pipeline(context.path / self.pipeline))
