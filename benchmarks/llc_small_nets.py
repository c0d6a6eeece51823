"""λ̂ of small trained networks by default: do unadjusted chains hold against adjusted ones at the same nβ and γ?

python benchmarks/llc_small_nets.py [CALLS]

Criterion, written before running: among CALLS (20) calls per network, at least 90% are within 2 combined errors of
Metropolis-adjusted chains of 0.5%, and none of those that are ok is beyond 4.
"""

from __future__ import annotations

import math
import sys
import time
from itertools import pairwise

import numpy as np
import torch

import phasecast as pc


def trained(widths: tuple[int, ...], rows: int, loss, target, steps: int, seed: int):
    torch.manual_seed(seed)
    x = torch.randn(rows, widths[0])
    y = target(x)
    layers = [part for a, b in pairwise(widths) for part in (torch.nn.Linear(a, b), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers[:-1])
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(steps):
        optimiser.zero_grad()
        loss(model(x), y).backward()
        optimiser.step()
    return model, (x, y), loss


def square(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return 0.5 * torch.nn.functional.mse_loss(output[:, 0], y) / 0.1**2


def noisy_sine(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(2 * x[:, 0]) * x[:, 1] + 0.1 * torch.randn(len(x))


NETWORKS = {
    "classifier 8-32-2": lambda: trained(
        (8, 32, 2), 1000, torch.nn.functional.cross_entropy, lambda x: (x[:, 0] * x[:, 1] > 0).long(), 300, 0
    ),
    "regression 3-12-12-1": lambda: trained((3, 12, 12, 1), 400, square, noisy_sine, 1000, 1),
}


def main() -> None:
    calls, good = int(sys.argv[1]) if len(sys.argv) > 1 else 20, True
    for name, make in NETWORKS.items():
        network = make()
        begun = time.process_time()
        first = pc.torch.llc(*network, seed=0, progress=False)
        reference = pc.torch.llc(
            *network, sampler="hmc", gamma=first.gamma, target=0.005, seconds=None, seed=99, progress=False
        )
        print(f"{name}: adjusted {reference.estimate:.3f} ± {reference.error:.3f}, {reference.status}, "
              f"{time.process_time() - begun:.0f} CPU s")  # fmt: skip
        begun = time.process_time()
        answers = [pc.torch.llc(*network, seed=seed, progress=False) for seed in range(1, calls + 1)]
        spent = (time.process_time() - begun) / calls
        z = np.array([(a.estimate - reference.estimate) / math.hypot(a.error, reference.error) for a in answers])
        ok = np.array([a.status == "ok" for a in answers])
        within = int(np.sum(abs(z) <= 2))
        passed = within >= 0.9 * calls and not np.any(abs(z[ok]) > 4)
        good &= passed
        print(f"  default: {within} of {calls} within 2 errors, mean z {z.mean():+.2f}, spread {z.std(ddof=1):.2f}, "
              f"{ok.sum()} ok, {spent:.1f} CPU s per call: {'pass' if passed else 'FAIL'}")  # fmt: skip
    sys.exit(not good)


if __name__ == "__main__":
    main()
