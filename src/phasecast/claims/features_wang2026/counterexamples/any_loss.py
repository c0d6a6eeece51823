import numpy as np

from phasecast.core import float64
from phasecast.features import Network

for reach in (5.0, 10.0, 20.0):
    with float64():
        G = Network("gelu", "square").curvature(np.zeros((1, 1)), np.array([reach**2]))
    print(f"z = {reach:g}: G = {float(G[0, 0]):.1f}")
assert float(G[0, 0]) < -300
