"""When does it generalise? Small tasks, networks that learn them by heart first, and what happens on the way."""

from phasecast.grokking.analysis.curves import crossings, effective_width, grokking_severity
from phasecast.grokking.networks import Network, mlp, quadratic, transformer
from phasecast.grokking.tasks import Task, split, task
from phasecast.grokking.training import Piece, checkpoint_steps, train

__all__ = [
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
