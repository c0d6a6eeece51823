"""λ̂ against the peers, in one run: chain-steps a second with the same w*, data, batch and ε, and what counts, the
seconds to an error bar of 5% that holds where λ is known, and to one that holds on trained models.

The peers (devinterp 1.3.2 and 2.0.1, canonical-interp) are installed with pip in environments of their own under
``--envs``. Every measurement is a process with one thread. Peers get their fastest loader: tensors in memory, whole
batches at once, no workers; of several ways to call one, the fastest counts. Compilation is left out for everybody.

    python benchmarks/llc_peers.py                      # all of it
    python benchmarks/llc_peers.py --only A B --repeats 5
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

TORCH = "torch==2.13.0"
PEERS = {"devinterp 1.3.2": "devinterp==1.3.2", "devinterp 2.0.1": "devinterp==2.0.1", "canonical": "canonical-interp"}
VARIANTS = {
    "devinterp 1.3.2": ("SGLD", "SGMCMC.sgld"),
    "devinterp 2.0.1": ("SGLD", "SGMCMC.sgld"),
    "canonical": ("compiled", "step compiled", "eager"),
    "phasecast JAX": ("float32",),
    "phasecast torch": ("float32",),
}
GOALS = {"A": {"phasecast JAX": 4.0, "phasecast torch": 1.0}, "B": {"phasecast JAX": 1.5, "phasecast torch": 1.5}}
WORDS = {
    "A": "product of three 10×10 of rank 3, n = 10⁴, batch 500, 4 chains × 1000 steps",
    "B": "quadratic network, p = 53, K = 256, cross-entropy, batch 128, 3 chains × 700 steps",
}
TABLES = ("A", "B", "C", "real")
TRUTH = 42.0  # Aoyagi's λ of the product in A: what users of default settings hope for
NBETA = 10_000 / math.log(10_000)
GAMMA = 1.0
LIMIT = 1200  # seconds for one measurement
ONE_THREAD = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")},
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}


class Task:
    """Weights w* of a bias-free network (rows are outputs), data, and how to sample it."""

    def __init__(self, name: str) -> None:
        rng = np.random.default_rng(0)
        self.square = name == "B"
        if name == "A":
            bases = [np.linalg.qr(rng.standard_normal((10, 10)))[0][:, :3] for _ in range(4)]
            self.weights = [after @ before.T for before, after in itertools.pairwise(bases)]
            self.inputs = rng.standard_normal((10_000, 10))
            self.targets = self.inputs @ bases[0] @ bases[-1].T
            self.batch, self.chains, self.steps, self.step_size = 500, 4, 1000, 1e-5
        else:
            p, k = 53, 256
            a, b = np.divmod(np.arange(p * p), p)
            angles = 2 * np.pi / p * np.outer(np.arange(p), rng.integers(1, p, k))
            phases = rng.uniform(0, 2 * np.pi, k)
            first = np.concatenate([np.cos(angles + phases)] * 2)
            self.weights = [first.T / 2, np.cos(angles + 2 * phases)]
            self.inputs = np.concatenate([np.eye(p)[a], np.eye(p)[b]], axis=1)
            self.targets = (a + b) % p
            self.batch, self.chains, self.steps, self.step_size = 128, 3, 700, 1e-6

    def parts(self, dtype: str = "float32") -> tuple[Any, Any, Any, Any]:
        """The module at w*, the loss of each row, inputs and targets."""
        import torch

        torch.set_num_threads(1)
        real = getattr(torch, dtype)

        class Square(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return x * x

        layers: list[Any] = []
        for weight in self.weights:
            layers.append(torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=real))
            layers[-1].weight.data = torch.tensor(weight, dtype=real)
        if self.square:
            layers.insert(1, Square())

        def rows(outputs: Any, targets: Any) -> Any:
            if self.square:
                return torch.nn.functional.cross_entropy(outputs, targets, reduction="none")
            return ((outputs - targets) ** 2).sum(-1) / 2

        targets = torch.tensor(self.targets) if self.square else torch.tensor(self.targets, dtype=real)
        return torch.nn.Sequential(*layers), rows, torch.tensor(self.inputs, dtype=real), targets


class RealTask:
    """A trained model of ``real_models.py`` from the file that :func:`save_model` wrote."""

    batch = 64

    def __init__(self, file: str) -> None:
        self.file = file

    @property
    def has_attention(self) -> bool:
        return Path(self.file).stem != "mlp"

    def parts(self, dtype: str = "float32") -> tuple[Any, Any, Any, Any]:
        import torch
        from torch.nn.functional import cross_entropy

        import real_models

        torch.set_num_threads(1)
        saved = torch.load(self.file, weights_only=True)
        module: Any
        if saved["name"] == "mlp":
            module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
        else:
            module = real_models.CharTransformer(saved["symbols"], saved["width"], saved["layers"])
        module.load_state_dict(saved["weights"])

        def rows(outputs: Any, targets: Any) -> Any:
            each = cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none")
            return each.view(len(outputs), -1).mean(1)

        return module, rows, saved["inputs"], saved["targets"]


# what runs inside the environments: chain-steps a second


def whole_batches(inputs: Any, targets: Any, batch: int) -> Any:
    """A DataLoader, as peers insist on, that takes whole shuffled batches out of tensors in memory."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class WholeBatches(DataLoader):
        def __iter__(self) -> Any:
            x, y = self.dataset.tensors
            order = torch.randperm(len(x))
            for begin in range(0, len(x) - batch + 1, batch):
                chosen = order[begin : begin + batch]
                yield x[chosen], y[chosen]

        def __len__(self) -> int:
            return len(self.dataset) // batch

    return WholeBatches(TensorDataset(inputs, targets), batch_size=batch)


def timed(call: Any, task: Task, repeats: int) -> float:
    """Chain-steps a second, the best of some after a first that does not count."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return task.chains * task.steps / min(times[1:])


def rate_of_devinterp_1(task: Task, variant: str, repeats: int) -> float:
    from devinterp.optim import SGLD, SGMCMC
    from devinterp.slt.llc import LLCEstimator
    from devinterp.slt.sampler import sample

    module, rows, inputs, targets = task.parts()
    loader = whole_batches(inputs, targets, task.batch)
    method = SGLD if variant == "SGLD" else SGMCMC.sgld

    def call() -> None:
        sample(
            module, loader, [LLCEstimator(task.chains, task.steps, nbeta=NBETA, init_loss=1.0)],
            evaluate=lambda model, data: rows(model(data[0]), data[1]).mean(), sampling_method=method,
            optimizer_kwargs={"lr": task.step_size, "nbeta": NBETA, "localization": GAMMA},
            num_draws=task.steps, num_chains=task.chains, init_loss=1.0, verbose=False,
        )  # fmt: skip

    return timed(call, task, repeats)


def rate_of_devinterp_2(task: Task, variant: str, repeats: int) -> float:
    """Its chains alone, without the files that its ``sample`` writes at every step."""
    from devinterp.optim import SGLD, SGMCMC
    from devinterp.slt.sampler import sample_single_chain

    module, rows, inputs, targets = task.parts()

    class Rows:
        def __len__(self) -> int:
            return len(inputs)

        def __getitems__(self, chosen: list[int]) -> list[dict[str, Any]]:
            return [{"input_ids": inputs[chosen], "targets": targets[chosen]}]  # one item to collate, not hundreds

    def call() -> None:
        for chain in range(task.chains):
            sample_single_chain(
                module, Rows(), lambda model, data: (rows(model(data["input_ids"][0]), data["targets"][0]), {}),
                {name: None for name, _ in module.named_parameters()}, num_draws=task.steps, chain=chain, seed=chain,
                sampling_method=SGLD if variant == "SGLD" else SGMCMC.sgld, batch_size=task.batch,
                sampling_method_kwargs={"lr": task.step_size, "nbeta": NBETA, "localization": GAMMA},
            )  # fmt: skip

    return timed(call, task, repeats)


def canonical_estimator() -> Any:
    if not hasattr(itertools, "batched"):  # it needs Python 3.12 for this alone, to share chains between devices
        itertools.batched = None  # pyright: ignore[reportAttributeAccessIssue]
    from canonical_interp import LLCEstimator

    return LLCEstimator


def rate_of_canonical(task: Task, variant: str, repeats: int) -> float:
    if variant == "eager":
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
    estimator = canonical_estimator()
    module, rows, inputs, targets = task.parts()
    best = 0.0
    for _ in range(repeats):
        clock: list[float] = []

        def unpack(batch: Any, clock: list[float] = clock) -> Any:
            clock.append(time.perf_counter())
            return batch

        sampler = estimator(
            task.steps, task.chains, 0, 1, learning_rate=task.step_size, localization=GAMMA, nbeta=NBETA
        )
        sampler.estimate_llc(
            module, whole_batches(inputs, targets, task.batch), lambda outputs, y: rows(outputs, y).mean(),
            compile=variant == "compiled", unpack_fn=unpack, show_progress=False,
        )  # fmt: skip
        late = clock[-task.steps * 4 // 5 :]  # what was compiled, was compiled before
        best = max(best, task.chains * (len(late) - 1) / (late[-1] - late[0]))
    return best


def our_rate(engine: Any, task: Task, repeats: int) -> float:
    from phasecast.sampling import KERNELS
    from phasecast.sampling.kernels.kernel import Tuning

    kernel, tuning = KERNELS["sgld"](), Tuning(task.step_size, 1.0, 1.0, NBETA, GAMMA)
    start = engine.init(kernel, engine.array(np.zeros((task.chains, engine.size))), tuning, engine.key(0))
    return timed(lambda: engine.run(kernel, start, tuning, engine.key(1), task.steps), task, repeats)


def rate_of_our_jax(task: Task, variant: str, repeats: int) -> float:
    from phasecast.sampling.backends.jax import jax_backend
    from phasecast.sampling.backends.protocol import Minibatch

    loss, params, data = jax_parts(task)
    batch = Minibatch(task.batch, anchored=False)
    return our_rate(jax_backend(loss, params, data, batch=batch, precision=variant), task, repeats)


def jax_parts(task: Task) -> tuple[Any, Any, Any]:
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, batch: Any) -> Any:
        x, y = batch
        if task.square:
            outputs = (x @ weights[0].T) ** 2 @ weights[1].T
            return -jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], axis=1).mean()
        x, y = x.T, y.T  # examples along columns suit XLA, along rows torch
        for weight in weights:
            x = weight @ x
        return ((x - y) ** 2).sum(0).mean() / 2

    return loss, task.weights, (task.inputs, task.targets)


def rate_of_our_torch(task: Task, variant: str, repeats: int) -> float:
    from phasecast.sampling.backends.protocol import Minibatch
    from phasecast.sampling.backends.torch import torch_backend

    module, rows, inputs, targets = task.parts()
    loss, data = lambda outputs, y: rows(outputs, y).mean(), (inputs, targets)
    batch = Minibatch(task.batch, anchored=False)
    return our_rate(torch_backend(module, loss, data, batch=batch, precision=variant), task, repeats)


RATES = {
    "devinterp 1.3.2": rate_of_devinterp_1,
    "devinterp 2.0.1": rate_of_devinterp_2,
    "canonical": rate_of_canonical,
    "phasecast JAX": rate_of_our_jax,
    "phasecast torch": rate_of_our_torch,
}

# what runs inside the environments: the error bar. Each gives λ̂ of every chain; ours λ̂ and its error

SETTINGS = {  # as their defaults and front pages have them; then with nβ, γ and a good ε given away, and long chains
    "devinterp 1.3.2": {"lr": 0.01, "nbeta": 500 / math.log(500), "gamma": 0.0, "chains": 10, "draws": 100, "burn": 0},
    "devinterp 2.0.1": {"lr": 1e-3, "nbeta": 30.0, "gamma": 0.0, "chains": 4, "draws": 200, "burn": 0},
    "canonical": {"lr": 1e-5, "nbeta": NBETA, "gamma": 100.0, "chains": 10, "draws": 200, "burn": 100},
}
LONG = {"lr": 1e-4, "nbeta": NBETA, "gamma": GAMMA, "chains": 4, "draws": 5000, "burn": 5000}


def bar_of_devinterp_1(task: Task | RealTask, given: dict[str, Any]) -> Any:
    from devinterp.optim import SGMCMC
    from devinterp.slt.sampler import estimate_learning_coeff_with_summary

    module, rows, inputs, targets = task.parts()
    found = estimate_learning_coeff_with_summary(
        module, whole_batches(inputs, targets, task.batch), sampling_method=SGMCMC.sgld, verbose=False,
        evaluate=lambda model, data: rows(model(data[0]), data[1]).mean(), num_draws=given["draws"],
        optimizer_kwargs={"lr": given["lr"], "nbeta": given["nbeta"], "localization": given["gamma"]},
        num_chains=given["chains"], num_burnin_steps=given["burn"], seed=0,
    )  # fmt: skip
    return [found[f"llc-chain/{number}"] for number in range(given["chains"])]


def bar_of_devinterp_2(task: Task | RealTask, given: dict[str, Any]) -> Any:
    import torch
    from devinterp.slt.llc import llc

    module, rows, inputs, targets = task.parts()
    rows_by_number = [{"input_ids": torch.tensor([number, number])} for number in range(len(inputs))]  # it knows tokens

    def loss(model: Any, numbers: Any) -> Any:
        return rows(model(inputs[numbers[:, 0]]), targets[numbers[:, 0]])[:, None]

    found = llc(
        module, rows_by_number, {}, lr=given["lr"], n_beta=given["nbeta"], loss_fn=loss, batch_size=task.batch,
        num_chains=given["chains"], num_draws=given["draws"], num_burnin_steps=given["burn"],
        localization=given["gamma"], device="cpu",
    )  # fmt: skip
    return found["llc_per_chain"].values


def bar_of_canonical(task: Task | RealTask, given: dict[str, Any]) -> Any:
    if isinstance(task, RealTask) and task.has_attention:
        os.environ["TORCHDYNAMO_DISABLE"] = "1"  # what it compiles by default, it cannot compile there
    estimator = canonical_estimator()
    module, rows, inputs, targets = task.parts()
    sampler = estimator(
        given["draws"], given["chains"], given["burn"], 1, learning_rate=given["lr"], localization=given["gamma"],
        nbeta=given["nbeta"],
    )  # fmt: skip
    loader = whole_batches(inputs, targets, task.batch)
    sampler.estimate_llc(module, loader, lambda outputs, y: rows(outputs, y).mean(), seed=0, show_progress=False)
    return sampler.get_metrics()["llcs"].detach()


def our_bar_jax(task: Task, given: dict[str, Any]) -> Any:
    import phasecast as pc

    loss, params, data = jax_parts(task)
    return pc.llc(loss, params, data, target=0.05, **given)


def our_bar_torch(task: Task | RealTask, given: dict[str, Any]) -> Any:
    import phasecast as pc

    module, rows, inputs, targets = task.parts("float64")
    return pc.torch.llc(module, (inputs, targets), lambda outputs, y: rows(outputs, y).mean(), target=0.05, **given)


BARS = {
    "devinterp 1.3.2": bar_of_devinterp_1,
    "devinterp 2.0.1": bar_of_devinterp_2,
    "canonical": bar_of_canonical,
    "phasecast JAX": our_bar_jax,
    "phasecast torch": our_bar_torch,
}


def bar(who: str, given: dict[str, Any]) -> dict[str, Any]:
    task = RealTask(given.pop("file")) if "file" in given else Task("A")
    began, first = time.perf_counter(), []

    def progress(now: Any) -> None:
        if not first and math.isfinite(now.error):
            first.append(time.perf_counter() - began)

    found = BARS[who](task, given | ({"progress": progress} if who.startswith("phasecast") else {}))
    seconds = time.perf_counter() - began
    if who.startswith("phasecast"):
        words = f"{found.status}, " + (f"γ {found.gamma:g}" if found.gamma else "the limit γ → 0")
        numbers = {"value": found.estimate, "error": found.error, "seconds": seconds}
        return numbers | {"first": first[0] if first else seconds, "words": words}
    each = np.asarray(found, dtype=float)
    words = (
        f"nβ {given['nbeta']:.0f}, γ {given['gamma']:g}, ε {given['lr']:g}, {given['burn']} + {given['draws']} steps"
    )
    error = each.std(ddof=1) / math.sqrt(len(each))
    numbers = {"value": each.mean(), "error": error, "seconds": seconds, "first": seconds}
    return numbers | {"words": f"{len(each)} chains, {words}"}


# what installs, starts and prints


def environment(folder: Path, requirement: str) -> tuple[str | None, str]:
    """The python of an environment with a peer, made if it is not there, and what went wrong."""
    home = folder / requirement.replace("==", "-")
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        print(f"installing {requirement} in {home}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", requirement, TORCH]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["pip failed"]
            return None, lines[-1]
        ready.touch()
    return str(python), ""


def measure(python: str, *words: str) -> dict[str, Any]:
    """What this script prints inside an environment, with one thread on one core."""
    pinned = ["taskset", "-c", "0"] if shutil.which("taskset") else []
    with tempfile.TemporaryDirectory() as elsewhere:
        command = [*pinned, python, "-W", "ignore", str(Path(__file__).resolve()), "--inside", *words]
        surroundings = {**os.environ, **ONE_THREAD}
        try:
            done = subprocess.run(
                command, env=surroundings, cwd=elsewhere, capture_output=True, text=True, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"not done in {LIMIT} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def inside(kind: str, who: str, detail: str, repeats: str) -> None:
    found = bar(who, json.loads(detail)) if kind == "bar" else {"rate": RATES[who](Task(kind), detail, int(repeats))}
    print("\n" + json.dumps(found))


def speed(name: str, pythons: dict[str, str], repeats: int) -> None:
    print(f"\n{name}: {WORDS[name]}\n{'':28}chain-steps/s")
    rates: dict[str, float] = {}
    for who, python in pythons.items():
        for variant in VARIANTS[who]:
            found = measure(python, name, who, variant, str(repeats))
            print(f"  {who + ' (' + variant + ')':<32}", found.get("failed") or f"{found['rate']:>8,.0f}", flush=True)
            rates[who] = max(rates.get(who, 0.0), found.get("rate", 0.0))
    peer = max((who for who in PEERS if rates.get(who)), key=lambda who: rates[who], default=None)
    for who, goal in GOALS[name].items():
        if peer and rates.get(who):
            ratio = rates[who] / rates[peer]
            verdict = "reached" if ratio >= goal else "MISSED"
            print(f"  {who} / {peer}: {ratio:.2f} (goal ≥ {goal:g}: {verdict})")


def bars(pythons: dict[str, str]) -> None:
    """Everyone's time to a bar: with their defaults against λ, and with γ given against the mean of that density."""
    from phasecast.sampling import gibbs_coefficient

    exact = gibbs_coefficient((10, 10, 10, 10), 3, nbeta=NBETA, gamma=GAMMA, sweeps=20_000).value
    print("\nC: an error bar of 5% that holds; the product of A; seconds with compilation, one thread")
    print(f"   λ = {TRUTH:g}; with γ = {GAMMA:g} given, nβ E[L − L*] = {exact:.2f} by exact Gibbs sampling")
    print(f"  {'':<17}{'λ̂':>8}{'error':>8}{'share':>7}{'seconds':>9}  2 errors hold it")
    for who, python in pythons.items():
        for given in [SETTINGS[who], LONG] if who in PEERS else [{"gamma": GAMMA}, {"gamma": "limit"}]:
            truth = exact if given.get("gamma") == GAMMA else TRUTH
            found = measure(python, "bar", who, json.dumps(given), "1")
            if "failed" in found:
                print(f"  {who:<17} {found['failed']}")
                continue
            value, error = found["value"], found["error"]
            holds = "yes" if abs(value - truth) <= 2 * error else "NO"  # not a number: no
            numbers = f"{value:>8.2f}{error:>8.2f}{abs(error / value):>7.1%}{found['seconds']:>9.1f}"
            print(f"  {who:<17}{numbers}  {holds:<4} {found['words']}", flush=True)


def largest_curvature(module: Any, mean_loss: Any) -> float:
    """Of the loss at w*, by 20 power iterations with differences of gradients."""
    import torch
    from torch.nn.utils import parameters_to_vector, vector_to_parameters

    centre = parameters_to_vector(module.parameters()).detach()

    def slope(flat: Any) -> Any:
        vector_to_parameters(flat, module.parameters())
        return parameters_to_vector(torch.autograd.grad(mean_loss(), list(module.parameters())))

    here, direction = slope(centre), torch.randn(len(centre), generator=torch.Generator().manual_seed(0))
    length = 1e-2
    for _ in range(20):
        direction = (slope(centre + length * direction / direction.norm()) - here) / length
    vector_to_parameters(centre, module.parameters())
    return float(direction.norm())


def save_model(name: str, trained: Any, file: str) -> None:
    """What a :class:`RealTask` reads: weights, data, and the shape of a transformer."""
    import torch

    shape = {}
    if name != "mlp":
        shape = {"symbols": trained.module.head.out_features, "width": trained.module.norm.normalized_shape[0]}
        shape["layers"] = len(trained.module.blocks)
    inputs, targets = trained.data
    weights = trained.module.state_dict()
    torch.save({"name": name, "weights": weights, "inputs": inputs, "targets": targets, **shape}, file)


def real(pythons: dict[str, str]) -> None:
    """Seconds to a first number, and to one that holds, on trained models.

    A number holds if it is within two combined errors of a long run at the same nβ and γ, which takes gradients of all
    rows, and its own error is at most 10%. Peers are called with their defaults, and then with the nβ and γ of that run
    and an ε that is stable, which their users would have to find: 200 to 5,000 draws after as many that do not count,
    until the number holds.
    """
    import phasecast as pc
    import real_models

    for name in ("mlp", "small_transformer"):
        trained = getattr(real_models, name)()
        nbeta = trained.n / math.log(trained.n)
        weights = [one.detach() for one in trained.module.parameters()]
        gamma = sum(one.numel() for one in weights) / (0.09 * sum(float((one**2).sum()) for one in weights))
        inputs, targets = trained.data
        curvature = nbeta * largest_curvature(
            trained.module, lambda module=trained.module, loss=trained.loss, x=inputs, y=targets: loss(module(x), y)
        )
        long = pc.torch.llc(
            trained.module, trained.data, trained.loss, n=trained.n, gamma=gamma, sampler="langevin", target=0.007,
            seconds=240.0, progress=False,
        )  # fmt: skip
        print(f"\nreal: {name}, nβ {nbeta:.0f}, γ {gamma:.3g}: {long.estimate:.2f} ± {long.error:.2g} by a long run")
        print(f"  {'':<17}{'λ̂':>9}{'error':>8}{'first':>8}{'seconds':>9}  holds")
        given = {"lr": 0.1 / (curvature + gamma), "nbeta": nbeta, "gamma": gamma, "chains": 4}
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / f"{name}.pt")
            save_model(name, trained, file)
            for who, python in pythons.items():
                if who == "phasecast JAX":
                    continue
                calls = [{"n": trained.n}] if who not in PEERS else [
                    SETTINGS[who] | ({"nbeta": nbeta} if who == "canonical" else {}),
                    *({**given, "draws": draws, "burn": draws} for draws in (200, 1000, 5000)),
                ]  # fmt: skip
                for number, call in enumerate(calls):
                    found = measure(python, "bar", who, json.dumps(call | {"file": file}), "1")
                    if "failed" in found:
                        print(f"  {who:<17} {found['failed']}", flush=True)
                        break
                    value, error = found["value"], found["error"]
                    comparable = number > 0 or who not in PEERS
                    near = abs(value - long.estimate) <= 2 * math.hypot(error, long.error) and error <= 0.1 * abs(value)
                    holds = ("yes" if near else "NO") if comparable else "–"
                    numbers = f"{value:>9.2f}{error:>8.2f}{found['first']:>8.1f}{found['seconds']:>9.1f}"
                    print(f"  {who:<17}{numbers}  {holds:<4} {found['words']}", flush=True)
                    if holds == "yes":
                        break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=Path, default=Path(".peers"), help="where the peers are installed (.peers)")
    parser.add_argument("--only", nargs="*", choices=[*TABLES], default=[*TABLES])
    everyone = [*PEERS, "phasecast JAX", "phasecast torch"]
    parser.add_argument("--who", nargs="*", choices=everyone, default=everyone, help="all of them by default")
    parser.add_argument("--repeats", type=int, default=3, help="timings of each, of which the best counts")
    parser.add_argument("--inside", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        inside(*asked.inside)
        return
    pythons = {}
    for who, requirement in ((who, PEERS[who]) for who in asked.who if who in PEERS):
        python, failed = environment(asked.envs.absolute(), requirement)
        if python is None:
            print(f"{who} cannot be installed, and is left out: {failed}")
        else:
            pythons[who] = python
    pythons |= {who: sys.executable for who in asked.who if who not in PEERS}
    for name in asked.only:
        if name in GOALS:
            speed(name, pythons, asked.repeats)
        else:
            (bars if name == "C" else real)(pythons)


if __name__ == "__main__":
    main()
