"""How are parameters read from a file? From ``.npz`` and ``.safetensors``, by name; neither format can run code."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.types import PyTree


def load_weights(path: str | Path, like: PyTree) -> PyTree:
    """A tree like ``like`` with the arrays of a file, whose names are paths such as ``layers.0.weight``."""
    import jax

    arrays = read_arrays(Path(path))
    leaves, tree = jax.tree_util.tree_flatten_with_path(like)
    values = []
    for keys, leaf in leaves:
        name = ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in keys)
        name = name or "params"
        if name not in arrays:
            raise BadInput(f"{path} has no '{name}'", f"it has {', '.join(sorted(arrays)[:6])}")
        if np.shape(arrays[name]) != np.shape(leaf):
            raise BadInput(f"'{name}' in {path} has shape {np.shape(arrays[name])}", f"the model has {np.shape(leaf)}")
        values.append(arrays[name])
    return jax.tree.unflatten(tree, values)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file by name."""
    if path.suffix in (".safetensors", ".npz") and not path.is_file():  # a device would be read for ever
        raise BadInput(f"there is no file {path}", "give the path of an .npz or .safetensors file")
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        try:
            return load_file(path)
        except Exception as error:  # readers raise many kinds for a file that is not theirs
            fix = "give a file in the safetensors format"
            raise BadInput(f"{path} cannot be read ({_short(error)})", fix) from None
    if path.suffix == ".npz":
        try:
            with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except Exception as error:
            fix = "write it with numpy.savez and plain arrays"
            raise BadInput(f"{path} cannot be read ({_short(error)})", fix) from None
    raise BadInput(f"{path} is not an .npz or .safetensors file", "save the parameters in one of these formats")


def _short(error: Exception) -> str:
    """What went wrong, in part of a line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
