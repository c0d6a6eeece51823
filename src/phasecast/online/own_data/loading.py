"""What is in the user's file? Rows, or rows and labels, as arrays; pickled content is never executed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from phasecast.core.errors import BadInput

MOST_ARRAYS = 2  # in a file: rows, and their labels


def load_data(path: str | Path) -> np.ndarray:
    """A matrix from a .npy file, or the only array of a .npz file; pickled content is never executed."""
    arrays = _arrays(Path(path))
    if len(arrays) != 1:
        raise BadInput(f"{path} has {len(arrays)} arrays", "keep one in the file")
    (loaded,) = arrays
    return loaded.reshape(len(loaded), -1) if loaded.ndim > 2 else loaded


def load_labelled(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) and labels (n,) from a .npz file with two arrays, in any order and under any names."""
    arrays = _arrays(Path(path))
    labels = [one for one in arrays if one.ndim == 1]
    rows = [one for one in arrays if one.ndim > 1]
    if len(labels) != 1 or len(rows) != 1 or len(rows[0]) != len(labels[0]):
        shapes = ", ".join(str(one.shape) for one in arrays)
        raise BadInput(f"{path} has arrays of shapes {shapes}", "write numpy.savez(file, X=…, y=…), (n, d) and (n,)")
    return rows[0].reshape(len(rows[0]), -1), labels[0]


def _arrays(path: Path) -> list[np.ndarray]:
    """The arrays of a .npy or .npz file, which must hold real numbers."""
    if not path.is_file():
        raise BadInput(f"there is no file {path}", "give a .npy or .npz file")
    try:
        loaded = np.load(path, allow_pickle=False)
    except Exception as error:  # numpy raises many kinds for a file that is not its own
        words = " ".join(str(error).split())[:200]
        raise BadInput(f"{path} cannot be read safely as an array ({words})", "write it with numpy.save") from None
    arrays = [loaded]
    if isinstance(loaded, np.lib.npyio.NpzFile):
        with loaded:
            if len(loaded.files) > MOST_ARRAYS:
                raise BadInput(f"{path} has {len(loaded.files)} arrays", "keep one in the file, or rows and labels")
            try:
                arrays = [loaded[name] for name in loaded.files]
            except Exception as error:
                words = " ".join(str(error).split())[:200]
                raise BadInput(f"{path} has no plain array ({words})", "write it with numpy.savez") from None
    for one in arrays:
        if not np.issubdtype(one.dtype, np.number) or np.issubdtype(one.dtype, np.complexfloating):
            raise BadInput(f"{path} holds {one.dtype}, not numbers", "give a matrix of real numbers")
    return arrays
