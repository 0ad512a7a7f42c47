"""Properties of a transform that decide whether a checkpoint can be used: watermark and shape."""
