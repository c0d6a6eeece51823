"""When does a network generalise? Small tasks, networks that first memorise them, and measures of their training."""

from phasecast.grokking.analysis.curves import crossings, effective_width, grokking_severity
from phasecast.grokking.networks import Architecture, mlp, quadratic, transformer
from phasecast.grokking.tasks import Task, split, task
from phasecast.grokking.training import Piece, checkpoint_steps, train

Network = Architecture  # its name before, kept for users

__all__ = [
    "Architecture",
    "Network",
    "Piece",
    "Task",
    "checkpoint_steps",
    "crossings",
    "effective_width",
    "grokking_severity",
    "mlp",
    "quadratic",
    "split",
    "task",
    "train",
    "transformer",
]
