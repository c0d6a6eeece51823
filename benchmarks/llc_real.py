"""λ̂ of ordinary PyTorch models: how long a call takes, whether its error holds, and λ̂ along a training and by parts.

python benchmarks/llc_real.py                  the default call on each model, each in a process of its own
python benchmarks/llc_real.py million          a million parameters and a million tokens, two seeds
python benchmarks/llc_real.py coverage [MODEL] 40 calls beside long-run references at the same nβ and γ
python benchmarks/llc_real.py trajectory       20 checkpoints of the transformer, killed once and resumed
python benchmarks/llc_real.py block            a block of known λ̂ beside a transformer, on minibatches, 5 seeds
python benchmarks/llc_real.py parts            every layer and attention head of the transformer
python benchmarks/llc_real.py radius [MODEL]   how the order of checkpoints depends on γ, which set the default radius

Each ends with lines that say "pass" or "FAIL" for a bound written before running, and with status 1 if one failed.
``--quick`` runs the same on smaller models with shorter limits: whether it runs, not whether it passes.
On two quiet cores they take about 4, 9, 15, 9, 6 and 5 minutes in this order, without ``radius``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

if TYPE_CHECKING:
    from real_models import Trained

BOUND = {"mlp": 15, "cnn": 30, "transformer": 90, "million": 300}  # seconds that a call may take, with the imports
TARGET = 0.05
FAILED: list[str] = []


def verdict(good: bool, words: str) -> None:
    print(f"{'pass' if good else 'FAIL'}: {words}", flush=True)
    if not good:
        FAILED.append(words)


def model(name: str, quick: bool) -> Trained:
    """A trained model; with ``quick`` a small one of the same kind."""
    import real_models

    if quick and name in ("transformer", "million", "small_transformer"):
        return real_models.transformer(tokens=8_000, width=8, steps=20)
    return getattr(real_models, name)(**({"steps": 60} if quick else {}))


def relative(line: dict[str, Any]) -> float:
    """The error over λ̂, or over λ̂ relative to the minimum where w* is not one: what ``target`` means."""
    return line["error"] / max(abs(line["estimate"]), abs(line["value_min"]), 1e-300)


def one_call(name: str, options: dict[str, Any], seeds: int, quick: bool) -> list[dict[str, Any]]:
    """Train a model, then λ̂ in this process; the clock includes the imports, not the training."""
    begun = time.monotonic()
    import phasecast as pc

    pc.torch  # noqa: B018  # imported when it is first used
    imported = time.monotonic() - begun
    trained = model(name, quick)
    lines = []
    for seed in range(seeds):
        begun, first = time.monotonic(), []

        def progress(now: Any, begun: float = begun, first: list[float] = first) -> None:
            if not first and np.isfinite(now.error):
                first.append(time.monotonic() - begun)

        measured = pc.torch.llc(
            trained.module, trained.data, trained.loss, n=trained.n, progress=progress, seed=seed, **options
        )
        numbers = ("estimate", "error", "value_min", "gamma", "radius", "gradients")
        lines.append({
            "parameters": sum(parameter.numel() for parameter in trained.module.parameters()), "n": trained.n,
            **{number: float(getattr(measured, number)) for number in numbers},
            "status": str(measured.status), "reasons": measured.reasons,
            "seconds": imported + time.monotonic() - begun, "first": imported + first[0] if first else float("nan"),
        })  # fmt: skip
    return lines


def in_a_process(name: str, options: dict[str, Any], seeds: int, quick: bool) -> list[dict[str, Any]]:
    """:func:`one_call` in a new process, printed as rows of a table."""
    words = [sys.executable, __file__, "call", name, json.dumps(options), str(seeds), *(["--quick"] if quick else [])]
    lines = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
    for line in lines:
        print(
            f"{name:12s} {line['parameters']:10,d} {line['n']:9,d} {line['estimate']:11.3f} ± {line['error']:<6.2g} "
            f"{line['value_min']:9.4g} {line['status']:8s} {line['first']:6.1f} s {line['seconds']:6.1f} s "
            f"{line['gradients']:9.0f}", *line["reasons"], sep="\n    ", flush=True,
        )  # fmt: skip
    return lines


def table_head() -> None:
    print(
        f"{'model':12s} {'parameters':>10s} {'n':>9s} {'λ̂':>20s} {'value_min':>9s} {'status':8s} {'first':>8s} "
        f"{'seconds':>8s} gradients"
    )


def defaults(quick: bool) -> None:
    """The default call, with no option but n."""
    table_head()
    for name in ("mlp", "cnn", "transformer"):
        (line,) = in_a_process(name, {"seconds": 10.0} if quick else {}, 1, quick)
        verdict(line["seconds"] <= BOUND[name], f"{name}: {line['seconds']:.1f} s (bound {BOUND[name]} s)")
        good = line["status"] != "refused" and relative(line) <= TARGET
        verdict(good, f"{name}: error {relative(line):.1%} (bound {TARGET:.0%}), {line['status']}")


def million(quick: bool) -> None:
    """Two calls with a limit of four minutes: each has an error, and they agree within 2 combined errors.

    The target is 20%: noise of minibatches makes a window of time 2/√γ cost about nβR/(2h) tokens, where noise may add
    the share h of λ̂ and R = tr(nβH)/(2γλ̂) is about 7, so that 5% would need four times as long.
    """
    table_head()
    lines = in_a_process("million", {"seconds": 10.0 if quick else 240.0, "target": 0.2}, 2, quick)
    for line in lines:
        verdict(line["seconds"] <= BOUND["million"], f"million: {line['seconds']:.0f} s (bound {BOUND['million']} s)")
        verdict(line["status"] != "refused", f"million: error {relative(line):.1%}, {line['status']}")
    one, other = lines
    z = (one["estimate"] - other["estimate"]) / np.hypot(one["error"], other["error"])
    verdict(abs(z) <= 2, f"million: two seeds are {abs(z):.2f} combined errors apart (bound 2)")


def coverage(quick: bool, *names: str) -> None:
    """±2 errors beside a reference at the same nβ and γ, for 40 calls that differ in their seed.

    References are chains with a target seven times smaller, which are fifty times as long; that of the transformer
    takes gradients of all rows, where the calls take minibatches, so it has none of their bias. Criterion, written
    before running: |λ̂ − reference| ≤ 2 combined errors in at least 90% of all calls, and at most two are refused.
    """
    import phasecast as pc

    plan = {"mlp": (16, 90.0), "cnn": (12, 120.0), "small_transformer": (12, 240.0)}
    total, inside, refused = 0, 0, 0
    print(f"{'model':18s} {'γ':>8s} {'reference':>18s} {'inside ±2':>9s} {'mean z':>7s} {'sd z':>6s} refused seconds")
    for name, (calls, seconds) in {name: plan[name] for name in names or plan}.items():
        calls, seconds = (2, 8.0) if quick else (calls, seconds)
        trained = model(name, quick)
        batched = name == "small_transformer"

        def sample(seed: int, trained: Trained = trained, **options: Any) -> pc.LLC:
            return pc.torch.llc(
                trained.module, trained.data, trained.loss, n=trained.n, seed=seed, progress=False, **options
            )

        gamma = gamma_of(trained.module.state_dict(), [name for name, _ in trained.module.named_parameters()])
        kernel = {"sampler": "langevin"} if batched else {}
        long = sample(10_000, gamma=gamma, target=TARGET / 7, seconds=seconds, **kernel)
        begun = time.monotonic()
        runs = [
            sample(seed, gamma=gamma, target=TARGET, seconds=8.0 if quick else 30.0) for seed in range(1, calls + 1)
        ]
        each = (time.monotonic() - begun) / calls
        good = [run for run in runs if str(run.status) != "refused"]
        z = np.array([(run.estimate - long.estimate) / np.hypot(run.error, long.error) for run in good])
        total, inside, refused = total + calls, inside + int(np.sum(abs(z) <= 2)), refused + calls - len(good)
        share, mean, spread = (np.mean(abs(z) <= 2), z.mean(), z.std()) if len(z) else (np.nan,) * 3
        print(
            f"{name:18s} {gamma:8.3g} {long.estimate:9.4f} ± {long.error:<6.2g} {share:9.0%} {mean:+7.2f} "
            f"{spread:6.2f} {calls - len(good)} of {calls} {each:6.1f}", flush=True,
        )  # fmt: skip
        print(f"    z: {' '.join(f'{one:+.1f}' for one in z)}")
        print(f"    reference {long.status}, {long.gradients:.0f} gradients in {long.seconds:.0f} s", *long.reasons)
        for reason in {reason for run in runs for reason in run.reasons}:
            print(f"    {reason}")
        verdict(str(long.status) != "refused", f"{name}: the reference is {long.status}")
    verdict(inside >= 0.9 * total, f"coverage: {inside} of {total} calls within 2 combined errors (bound 90%)")
    verdict(refused <= 2, f"coverage: {refused} refused (bound 2)")


def gamma_of(state: dict[str, Any], names: list[str], radius: float = 0.3) -> float:
    """γ = d/(r²|w*|²) of the default neighbourhood."""
    size = sum(state[name].numel() for name in names)
    return size / (radius**2 * sum(float((state[name].double() ** 2).sum()) for name in names))


def trajectory(quick: bool) -> None:
    """λ̂ along the training of the transformer as a stored run that is killed once and resumed.

    Criteria, written before running: both parts together take at most 6 minutes; the checkpoints before and around the
    kill have the bits of a run that was not killed; whatever is refused is refused again with four times the gradients.
    """
    import torch

    trained = model("transformer", quick)
    count, few, kill = (4, 2, 25.0) if quick else (20, 6, 75.0)
    names = [name for name, _ in trained.module.named_parameters()]
    with tempfile.TemporaryDirectory() as folder:
        files = []
        steps = sorted(trained.checkpoints)[-count:]
        for step in steps:
            files.append(str(Path(folder) / f"step-{step:04d}.pt"))
            torch.save(trained.checkpoints[step], files[-1])
        factory = "small_untrained_transformer" if quick else "untrained_transformer"
        settings = {
            "problem": f"real_models:{factory}", "n": trained.n, "target": 0.1, "max_grads": 300 if quick else 2500,
            "gamma": repr(gamma_of(trained.checkpoints[steps[-1]], names)),
        }  # fmt: skip

        def command(files: list[str], store: str, **changed: Any) -> list[str]:
            given = [f"{key}={value}" for key, value in {**settings, **changed}.items()]
            words = [sys.executable, "-m", "phasecast.cli", "run", "llc", "--json", "--set", *given]
            return [*words, f"checkpoints={json.dumps(files)}", "--store", f"{folder}/{store}"]

        begun = time.monotonic()
        running = subprocess.Popen(
            command(files, "killed"), cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            running.wait(kill)
            print(f"the run ended within {kill:.0f} s, before it could be killed")
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        before = time.monotonic() - begun
        found = answers(command(files, "killed"))
        seconds = time.monotonic() - begun
        print(f"{'checkpoint':12s} {'λ̂':>18s} {'value_min':>10s} {'gradients':>9s} status")
        for name, one in found.items():
            print(
                f"{name:12s} {one['estimate']:9.1f} ± {one['error']:<6.2g} {one['value_min']:10.1f} "
                f"{one['gradients']:9.0f} {one['status']}", *one["reasons"], sep="\n    ", flush=True,
            )  # fmt: skip
        whole = len(found) == count
        verdict(whole and seconds <= 360, f"trajectory: {len(found)} checkpoints in {seconds:.0f} s (bound 360 s)")
        again = answers(command(files[:few], "whole"))
        same = all(again[name] == found[name] for name in again) and len(again) == few
        verdict(same, f"trajectory: killed after {before:.0f} s and resumed, the first {few} have the same bits")
        refused = [name for name, one in found.items() if one["status"] == "refused"]
        wrongly = []
        for name in refused:
            file = str(Path(folder) / f"{name}.pt")
            longer = answers(command([file], f"long-{name}", max_grads=4 * settings["max_grads"]))
            wrongly += [name] if longer[name]["status"] != "refused" else []
        words = f"trajectory: {len(refused)} refused, {len(wrongly)} of them confirmed by a longer run (bound 0)"
        verdict(not wrongly, words)


def answers(words: list[str]) -> dict[str, dict[str, Any]]:
    """What a run of the recipe ``llc`` prints, by checkpoint; it ends with 3 if it refuses one."""
    done = subprocess.run(words, cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(words[2:6])} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    kept = ("estimate", "error", "status", "reasons")
    return {
        answer["where"]["checkpoint"]: {
            **{name: answer[name] for name in kept},
            **{name: answer["diagnostics"][name] for name in ("value_min", "gradients")},
        }
        for answer in json.loads(done.stdout)["summary"]["answers"]
    }


def block(quick: bool, directions: int = 600) -> None:
    """A bowl of known λ̂ beside a transformer (17,000 parameters, 60,000 tokens), sampled together on minibatches.

    λ̂(both) − λ̂(transformer) is the bowl's Σ ½ nβh/(nβh + γ) at the same nβ and γ. Criterion, written before running: no
    call is refused, at every seed the difference is within 3 combined errors of it, and over the seeds the mean within
    2; and the errors of the difference are below the bowl's own λ̂, so that it is seen at all.
    """
    import torch
    from torch.nn import Module, Parameter

    import phasecast as pc

    trained = model("small_transformer", quick)
    gamma = gamma_of(trained.module.state_dict(), [name for name, _ in trained.module.named_parameters()])
    nbeta = trained.n / np.log(trained.n)
    curvature = gamma / nbeta * torch.logspace(-1, 2, directions)

    class Beside(Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.bowl = trained.module, Parameter(torch.zeros(directions))

        def forward(self, tokens: Any) -> Any:
            return self.net(tokens), (curvature * self.bowl**2).sum() / 2

    def loss(outputs: Any, targets: Any) -> Any:
        return trained.loss(outputs[0], targets) + outputs[1]

    both = Beside()
    exact = float((0.5 * curvature * nbeta / (curvature * nbeta + gamma)).sum())
    print(f"γ = {gamma:.3g}, nβ = {nbeta:.0f}; the bowl's own λ̂ is {exact:.2f}")
    distances, errors, refused = [], [], 0
    for seed in range(1, 2 if quick else 6):
        given = {"gamma": gamma, "n": trained.n, "progress": False, "seconds": 8.0 if quick else 30.0, "target": 0.03}
        without = pc.torch.llc(trained.module, trained.data, trained.loss, seed=seed, **given)
        whole = pc.torch.llc(both, trained.data, loss, seed=100 + seed, **given)
        refused += sum(str(one.status) == "refused" for one in (without, whole))
        difference, error = whole.estimate - without.estimate, float(np.hypot(whole.error, without.error))
        distances.append((difference - exact) / error)
        errors.append(error)
        print(
            f"{seed}: {whole.estimate:8.1f} ± {whole.error:<5.2g} − {without.estimate:8.1f} ± {without.error:<5.2g} = "
            f"{difference:7.1f} ± {error:<5.2g} z = {distances[-1]:+.2f}  {whole.status} {without.status}",
            *whole.reasons, *without.reasons, sep="\n    ", flush=True,
        )  # fmt: skip
    mean = sum(distances) / len(distances) ** 0.5
    verdict(not refused, f"block: {refused} of {2 * len(distances)} calls refused (bound 0)")
    verdict(max(map(abs, distances)) <= 3, f"block: worst |z| {max(map(abs, distances)):.2f} (bound 3)")
    verdict(abs(mean) <= 2, f"block: mean over seeds {mean:+.2f} errors (bound 2)")
    verdict(max(errors) < exact, f"block: largest error {max(errors):.3g} (bound {exact:.3g})")


def parts(quick: bool) -> None:
    """Restricted λ̂ of every layer and every attention head of the transformer; none is refused."""
    import phasecast as pc

    trained = model("transformer", quick)
    names = sorted({name.rsplit(".", 1)[0] for name, _ in trained.module.named_parameters()})
    components = {name: f"{name}*" for name in names}
    for layer in range(2):
        components |= pc.torch.heads(trained.module, f"blocks.{layer}.qkv", 4, f"blocks.{layer}.out")
    if quick:
        components = dict(list(components.items())[:2] + list(components.items())[-1:])
    begun = time.monotonic()
    measured = pc.torch.llc_components(
        trained.module, trained.data, trained.loss, components, n=trained.n, seconds=4.0 if quick else 30.0, target=0.1,
        progress=False,
    )  # fmt: skip
    print(measured)
    refused = [name for name in measured.labels if str(measured[name].status) == "refused"]
    for name in measured.labels:
        print(f"    {name}: {measured[name].gradients:.0f} gradients", *measured[name].reasons)
    seconds = time.monotonic() - begun
    verdict(not refused, f"parts: {len(refused)} of {len(components)} refused (bound 0), {seconds:.0f} s")


def radius(quick: bool, *names: str) -> None:
    """Whether the order of checkpoints by λ̂ survives a change of γ by three, at several radii of the neighbourhood.

    Criterion, written before running: at the default radius no pair of checkpoints that is apart by two errors changes
    its order under γ/3 and 3γ, and chains mix (none refused). A pair changes if ``value_min`` differs by more than two
    combined errors at the middle γ and, the other way round, at another.
    """
    import phasecast as pc
    import real_models

    print(
        f"{'model':18s} {'radius':>6s} {'γ':>8s} {'pairs apart':>11s} {'changed':>8s} {'refused':>8s} {'reached':>8s}"
    )
    models = [("mlp", 0), ("mlp", 1), ("quadratic", 0), ("quadratic", 1), ("cnn", 0), ("small_transformer", 0)]
    for name, seed in [one for one in models if not names or one[0] in names][: 1 if quick else None]:
        trained = getattr(real_models, name)(seed)
        steps = sorted(trained.checkpoints)[2 :: 16 if quick else 5]
        checkpoints = {step: trained.checkpoints[step] for step in steps}

        def along(trained=trained, checkpoints=checkpoints, **options):
            return pc.torch.llc_trajectory(
                trained.module,
                checkpoints,
                trained.data,
                trained.loss,
                n=trained.n,
                target=0.1,
                progress=False,
                seconds=4.0 if quick else 20.0,
                **options,
            )

        for share in (0.3, 0.1, 1.0):
            middle = along(radius=share)
            gamma = middle.results[0].gamma
            others = [along(gamma=3 * gamma), along(gamma=gamma / 3)]
            apart, changed = 0, 0
            values = [[(one.value_min, one.error) for one in path.results] for path in (middle, *others)]
            for one in range(len(steps)):
                for two in range(one):
                    signs = []
                    for curve in values:
                        (a, error_a), (b, error_b) = curve[one], curve[two]
                        apart_enough = abs(a - b) >= 2 * np.hypot(error_a, error_b)  # not where one was refused
                        signs.append(int(np.sign(a - b)) if apart_enough else 0)
                    apart += signs[0] != 0
                    changed += signs[0] != 0 and -signs[0] in signs[1:]
            refused = sum(str(one.status) == "refused" for path in (middle, *others) for one in path.results)
            print(
                f"{name + f' {seed}':18s} {share:6.1f} {gamma:8.3g} {apart:11d} {changed:8d} {refused:8d} "
                f"{middle.results[-1].radius:8.2f}", flush=True,
            )  # fmt: skip


MODES = {
    "defaults": defaults, "million": million, "coverage": coverage, "trajectory": trajectory, "block": block,
    "parts": parts, "radius": radius,
}  # fmt: skip

if __name__ == "__main__":
    short = "--quick" in sys.argv
    match [word for word in sys.argv[1:] if word != "--quick"]:
        case ["call", name, options, seeds]:
            print(json.dumps(one_call(name, json.loads(options), int(seeds), short)))
        case ["coverage" | "radius" as mode, *names]:
            {"coverage": coverage, "radius": radius}[mode](short, *names)
        case [mode] if mode in MODES:
            MODES[mode](short)
        case []:
            defaults(short)
        case _:
            raise SystemExit(f"expected one of: {', '.join(MODES)} [--quick]")
    raise SystemExit(bool(FAILED))
