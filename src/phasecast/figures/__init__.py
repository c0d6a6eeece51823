"""How every figure looks: palette, style and small drawing helpers, below the science so that science can plot."""
