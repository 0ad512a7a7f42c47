"""Properties of a transform that decide whether a checkpoint can be used: watermark and shape.

Belongs here: whether a changed transform may go on with the state of the old one, and which rows a
watermark would drop.
"""
