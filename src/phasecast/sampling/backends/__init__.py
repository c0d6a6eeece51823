"""Where chains are computed: the same kernels on JAX and on PyTorch."""
