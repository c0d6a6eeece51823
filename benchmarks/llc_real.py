"""λ̂ of ordinary PyTorch models: how long a default call takes, and whether its error holds.

python benchmarks/llc_real.py                  the default call on each model, each in a process of its own
python benchmarks/llc_real.py coverage [CALLS [MODEL …]]  errors beside a reference at the same nβ and γ (20 calls)
python benchmarks/llc_real.py trajectory       20 checkpoints of the transformer, killed once and resumed
python benchmarks/llc_real.py block            a block of known λ̂ beside the transformer, on minibatches, 5 seeds
python benchmarks/llc_real.py parts            every layer and attention head of the transformer
python benchmarks/llc_real.py radius           how the order of checkpoints depends on γ, which set the default radius
python benchmarks/llc_real.py million          a million parameters and a million tokens

References are chains 50 times as long on the same target, with gradients of all rows where they are affordable.
Criterion, written before running: |λ̂ − reference| ≤ 2 combined errors in at least 90% of the calls not refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
BOUND = {"mlp": 15, "cnn": 30, "transformer": 90, "million": 300}  # seconds that a default call may take


def one_call(name: str, options: dict[str, float]) -> dict[str, float | str]:
    """Train a model, then λ̂ in this process; the clock includes the imports, not the training."""
    begun = time.monotonic()
    import phasecast as pc

    imported = time.monotonic() - begun
    sys.path.insert(0, str(HERE))
    import real_models

    trained = getattr(real_models, name)()
    begun = time.monotonic()
    first: list[float] = []

    def progress(now) -> None:
        if not first and np.isfinite(now.error):
            first.append(time.monotonic() - begun)

    measured = pc.torch.llc(trained.module, trained.data, trained.loss, n=trained.n, progress=progress, **options)
    seconds = imported + time.monotonic() - begun
    size = sum(parameter.numel() for parameter in trained.module.parameters())
    return {
        "model": name, "parameters": size, "n": trained.n, "estimate": float(measured.estimate),
        "error": float(measured.error), "value_min": measured.value_min, "status": str(measured.status),
        "gamma": measured.gamma, "radius": measured.radius, "gradients": measured.gradients, "seconds": seconds,
        "first": imported + first[0] if first else float("nan"),
    }  # fmt: skip


def defaults(names: tuple[str, ...] = ("mlp", "cnn", "transformer")) -> None:
    print(f"{'model':12s} {'parameters':>10s} {'n':>9s} {'λ̂':>20s} {'status':8s} {'first':>12s} {'seconds':>8s} bound")
    for name in names:
        options = {"seconds": BOUND[name]} if BOUND[name] > 60 else {}
        words = [sys.executable, __file__, "call", name, json.dumps(options)]
        line = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
        print(
            f"{name:12s} {line['parameters']:10,d} {line['n']:9,d} {line['estimate']:11.3f} ± {line['error']:<6.2g} "
            f"{line['status']:8s} {line['first']:10.1f} s {line['seconds']:6.1f} s {BOUND[name]:4d} s", flush=True,
        )  # fmt: skip


def coverage(calls: int = 20, *names: str) -> None:
    """±2 errors around the reference, for calls that differ in their seed."""
    sys.path.insert(0, str(HERE))
    import phasecast as pc
    import real_models

    print(f"{'model':12s} {'γ':>8s} {'reference':>18s} {'inside ±2':>9s} {'mean z':>7s} {'sd z':>6s} refused")
    for name in names or ("mlp", "cnn"):
        trained = getattr(real_models, name)()

        def sample(seed: int, trained=trained, **options):
            return pc.torch.llc(trained.module, trained.data, trained.loss, seed=seed, progress=False, **options)

        first = sample(0, seconds=None)
        long = sample(10_000, gamma=first.gamma, target=0.005, seconds=600.0)
        runs = [sample(seed, gamma=first.gamma, seconds=None) for seed in range(1, calls + 1)]
        good = [run for run in runs if str(run.status) != "refused"]
        z = np.array([(run.estimate - long.estimate) / np.hypot(run.error, long.error) for run in good])
        print(
            f"{name:12s} {first.gamma:8.3g} {long.estimate:9.4f} ± {long.error:<6.2g} {np.mean(abs(z) < 2):9.0%} "
            f"{z.mean():+7.2f} {z.std():6.2f} {calls - len(good)} of {calls}", flush=True,
        )  # fmt: skip


def trajectory(count: int = 20) -> None:
    """λ̂ along the training of the transformer as a stored run: timed, then again, killed once and resumed."""
    sys.path.insert(0, str(HERE))
    import torch

    import real_models

    trained = real_models.transformer()
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for step in sorted(trained.checkpoints)[-count:]:
            files.append(str(Path(folder) / f"step-{step:04d}.pt"))
            torch.save(trained.checkpoints[step], files[-1])
        settings = {"problem": "real_models:untrained_transformer", "n": trained.n, "target": 0.1, "max_grads": 2500}
        words = [sys.executable, "-m", "phasecast.cli", "run", "llc", "--json", "--set"]
        words += [*(f"{key}={value}" for key, value in settings.items()), f"checkpoints={json.dumps(files)}", "--store"]
        begun = time.monotonic()
        whole = answers(words, f"{folder}/whole")
        seconds = time.monotonic() - begun
        print(f"{'checkpoint':12s} {'λ̂':>18s} {'value_min':>10s} status")
        for name, one in whole.items():
            print(f"{name:12s} {one['estimate']:9.1f} ± {one['error']:<6.2g} {one['value_min']:10.1f} {one['status']}")
        refused = sum(one["status"] == "refused" for one in whole.values())
        print(f"{count} checkpoints in {seconds:.0f} s (bound 360 s), {refused} refused", flush=True)
        killed = subprocess.Popen([*words, f"{folder}/killed"], cwd=HERE, stdout=subprocess.DEVNULL)
        time.sleep(seconds / 3)
        killed.kill()
        killed.wait()
        again = answers(words, f"{folder}/killed")
        print(f"killed after {seconds / 3:.0f} s and resumed: {'the same bits' if again == whole else 'DIFFERS'}")


def answers(words: list[str], store: str) -> dict[str, dict[str, float | str]]:
    """What a run of the recipe ``llc`` prints, by checkpoint; it ends with 3 if it refuses one."""
    text = subprocess.run([*words, store], cwd=HERE, stdout=subprocess.PIPE, check=False).stdout
    kept = ("estimate", "error", "status")
    return {
        answer["where"]["checkpoint"]: {
            **{name: answer[name] for name in kept},
            "value_min": answer["diagnostics"]["value_min"],
        }
        for answer in json.loads(text)["summary"]["answers"]
    }


def block(seeds: int = 5, directions: int = 600) -> None:
    """A bowl of known λ̂ beside a transformer (17,000 parameters, 60,000 tokens), sampled together on minibatches.

    λ̂(both) − λ̂(transformer) is the bowl's Σ ½ nβh/(nβh + γ) at the same nβ and γ. Criterion, written before running: at
    every seed the difference is within 3 combined errors of it, and over the seeds the mean within 2.
    """
    sys.path.insert(0, str(HERE))
    from torch.nn import Module, Parameter

    import phasecast as pc
    import real_models

    trained = real_models.transformer(tokens=60_000, width=24)
    alone = pc.torch.llc(trained.module, trained.data, trained.loss, n=trained.n, progress=False, seconds=30.0)
    nbeta, gamma = alone.nbeta, alone.gamma
    import torch

    curvature = gamma / nbeta * torch.logspace(-1, 2, directions)

    class Beside(Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.bowl = trained.module, Parameter(torch.zeros(directions))

        def forward(self, tokens):
            return self.net(tokens), (curvature * self.bowl**2).sum() / 2

    def loss(outputs, targets):
        return trained.loss(outputs[0], targets) + outputs[1]

    both = Beside()
    exact = float((0.5 * curvature * nbeta / (curvature * nbeta + gamma)).sum())
    print(f"γ = {gamma:.3g}, nβ = {nbeta:.0f}; the bowl's own λ̂ is {exact:.2f}")
    distances = []
    for seed in range(1, seeds + 1):
        given = {"gamma": gamma, "n": trained.n, "seed": seed, "progress": False, "seconds": 30.0, "target": 0.02}
        without = pc.torch.llc(trained.module, trained.data, trained.loss, **given)
        whole = pc.torch.llc(both, trained.data, loss, **given | {"seed": 100 + seed})
        difference, error = whole.estimate - without.estimate, float(np.hypot(whole.error, without.error))
        distances.append((difference - exact) / error)
        print(
            f"{seed}: {whole.estimate:8.1f} ± {whole.error:<5.2g} − {without.estimate:8.1f} ± {without.error:<5.2g} = "
            f"{difference:7.1f} ± {error:<5.2g} z = {distances[-1]:+.2f}  {whole.status} {without.status}", flush=True,
        )  # fmt: skip
    mean = sum(distances) / len(distances) ** 0.5
    print(f"worst |z| {max(map(abs, distances)):.2f} (bound 3), mean over seeds {mean:+.2f} errors (bound 2)")


def parts(seconds: float = 15.0) -> None:
    """Restricted λ̂ of every layer and every attention head of the transformer."""
    sys.path.insert(0, str(HERE))
    import phasecast as pc
    import real_models

    trained = real_models.transformer()
    names = sorted({name.rsplit(".", 1)[0] for name, _ in trained.module.named_parameters()})
    components = {name: f"{name}*" for name in names}
    for layer in range(2):
        components |= pc.torch.heads(trained.module, f"blocks.{layer}.qkv", 4, f"blocks.{layer}.out")
    begun = time.monotonic()
    measured = pc.torch.llc_components(
        trained.module, trained.data, trained.loss, components, n=trained.n, seconds=seconds, target=0.1, progress=False
    )
    print(measured)
    print(f"{len(components)} parts in {time.monotonic() - begun:.0f} s")


def radius() -> None:
    """Whether the order of checkpoints by λ̂ survives a change of γ by three, at several radii of the neighbourhood.

    Criterion, written before running: the smallest radius among 0.1, 0.3 and 1 at which no pair of checkpoints that is
    apart by two errors changes its order under γ/3 and 3γ; and chains that mix (none refused).
    """
    sys.path.insert(0, str(HERE))
    import phasecast as pc
    import real_models

    print(f"{'model':6s} {'radius':>6s} {'γ':>8s} {'pairs apart':>16s} {'changed':>13s} {'refused':>7s} reached")
    for name, seed in (("mlp", 0), ("mlp", 1)):
        trained = getattr(real_models, name)(seed)
        steps = sorted(trained.checkpoints)[2::4]
        checkpoints = {step: trained.checkpoints[step] for step in steps}

        def along(trained=trained, checkpoints=checkpoints, **options):
            return pc.torch.llc_trajectory(
                trained.module, checkpoints, trained.data, trained.loss, progress=False, seconds=40.0, **options
            )

        for relative in (0.1, 0.3, 1.0):
            middle = along(radius=relative)
            gamma = middle.results[0].gamma
            others = [along(gamma=3 * gamma), along(gamma=gamma / 3)]
            apart, changed = 0, 0
            values = [[(one.value_min, one.error) for one in path.results] for path in (middle, *others)]
            for one in range(len(steps)):
                for two in range(one):
                    signs = []
                    for curve in values:
                        (a, error_a), (b, error_b) = curve[one], curve[two]
                        signs.append(0 if abs(a - b) < 2 * np.hypot(error_a, error_b) else int(np.sign(a - b)))
                    apart += signs[0] != 0
                    changed += signs[0] != 0 and -signs[0] in signs[1:]
            refused = sum(str(one.status) == "refused" for path in (middle, *others) for one in path.results)
            print(
                f"{name:6s} {relative:6.1f} {gamma:8.3g} {apart:16d} {changed:13d} {refused:7d} "
                f"{middle.results[-1].radius:.2f}", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["call", name, options]:
            print(json.dumps(one_call(name, json.loads(options))))
        case ["coverage"]:
            coverage()
        case ["coverage", calls, *names]:
            coverage(int(calls), *names)
        case ["trajectory", *count]:
            trajectory(*map(int, count))
        case ["block", *seeds]:
            block(*map(int, seeds))
        case ["parts"]:
            parts()
        case ["radius"]:
            radius()
        case ["million"]:
            defaults(("million",))
        case _:
            defaults()
