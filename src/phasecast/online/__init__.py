"""How fast does it learn? Exact learning curves of two-layer networks on streams of data with any spectrum."""
