"""Tables 1 and 3-5 of "Deep learning is singular, and that's good", as printed: slope and R² of E_n G over 1/n.

Entries that our copy of the text does not show are missing. Infinite and undefined ones are printed so.
"""

from __future__ import annotations

from math import inf, nan

PRINTED: dict[str, dict[str, tuple[float, float]]] = {
    "1a": {
        "two": (9.709027, 0.966124),
        "last": (6.410380, 0.988921),
        "laplace-two": (inf, nan),
        "laplace-last": (2154.989266, 0.801077),
        "map": (10.714216, 0.951051),
    },
    "1b": {
        "two": (1.286290, 0.98516),
        "last": (1.298504, 0.98229),
        "laplace-two": (inf, nan),
        "laplace-last": (2038.605589, 0.80373),
        "map": (1.437473, 0.98341),
    },
    "1c": {"two": (3.117187, 0.977313), "last": (3.152710, 0.980132)},
    "3a": {
        "two": (36.721594, 0.992839),
        "last": (20.676920, 0.983695),
        "laplace-two": (inf, nan),
        "laplace-last": (1768.655088, 0.838035),
        "map": (inf, nan),
    },
    "3b": {
        "two": (13.729278, 0.924049),
        "last": (9.170642, 0.945613),
        "laplace-two": (inf, nan),
        "laplace-last": (1943.793236, 0.794679),
        "map": (14.123308, 0.917502),
    },
    "3c": {"two": (22.175448, 0.975450), "last": (10.675455, 0.968584)},
    "3d": {
        "two": (4.652483, 0.922693),
        "last": (3.533366, 0.862125),
        "laplace-two": (inf, nan),
        "laplace-last": (1004.852367, 0.901899),
        "map": (6.256696, 0.940437),
    },
    "4a": {
        "two": (11.086023, 0.969991),
        "last": (7.377871, 0.957824),
        "laplace-two": (nan, nan),
        "laplace-last": (30.692954, 0.029238),
    },
    "4b": {
        "two": (0.808601, 0.144260),
        "last": (0.799114, 0.127686),
        "laplace-two": (nan, nan),
        "laplace-last": (-33.817429, 0.009074),
    },
    "4c": {"two": (5.987187, 0.848490), "last": (5.384686, 0.801313)},
    "4d": {"two": (0.794055, 0.088305), "last": (1.141580, 0.162585)},
    "5a": {
        "two": (11.086023, 0.969991),
        "last": (7.377871, 0.957824),
        "laplace-two": (nan, nan),
        "laplace-last": (30.692954, 0.029238),
        "map": (12.947959, 0.970173),
    },
    "5b": {
        "two": (0.808601, 0.144260),
        "last": (0.799114, 0.127686),
        "laplace-two": (nan, nan),
        "laplace-last": (-33.817429, 0.009074),
        "map": (1.204743, 0.242671),
    },
    "5c": {"two": (5.987187, 0.848490), "last": (5.384686, 0.801313)},
    "5d": {"two": (0.794055, 0.088305), "last": (1.141580, 0.162585)},
}
"""Table and panel to method to (slope, R²)."""
