"""Old name of :mod:`hybrid_extensions.training.point_in_time`."""

from hybrid_extensions.training.point_in_time import TrainingSet, training_set

__all__ = ["TrainingSet", "training_set"]
