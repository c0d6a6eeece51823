"""How one chain moves: each kernel is a pure pair ``init``, ``step`` with one contract."""
