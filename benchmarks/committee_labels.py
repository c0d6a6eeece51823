"""Is the stated teacher of a committee that of real labels? Predicted curves beside SGD over the rows.

Run ``python benchmarks/committee_labels.py`` (a minute). Diabetes (a number), breast cancer and wine (classes; of wine,
the first against the others) of scikit-learn, columns and labels of variance one, K = 2, 100 orders, σ = 0.1.

No criterion: the teacher is an assumption. Found: relative distance of the prediction from SGD at the points after the
first, η = 0.1 and 0.3, M = 1 and 2: diabetes −2 to 0%, wine +1 to +12%, breast cancer +8 to +32%. Classes are learned
better than a teacher with the same linear part says, because erf units saturate at them.
"""

from __future__ import annotations

import numpy as np
from sklearn import datasets

from phasecast.online import Committee, committee_curve_of

NAMES = ("diabetes", "breast_cancer", "wine")
ORDERS, POINTS = 100, 7


def main() -> None:
    for name in NAMES:
        bunch = getattr(datasets, f"load_{name}")()
        rows, labels = bunch.data / bunch.data.std(axis=0), bunch.target.astype(float)
        labels = np.where(labels >= np.median(labels), 1.0, -1.0) if name == "wine" else labels
        alphas = np.linspace(0, 0.78 * len(rows) / rows.shape[1], POINTS)
        for teachers in (1, 2):
            for lr in (0.1, 0.3):
                found = committee_curve_of(
                    rows,
                    labels / labels.std(),
                    Committee(2, teachers),
                    lr=lr,
                    alphas=alphas,
                    simulate=ORDERS,
                )
                assert found.simulation is not None
                apart = np.round(100 * (found.eps / found.simulation["eps"] - 1)).astype(int)
                print(f"{name}, N = {rows.shape[1]}, M = {teachers}, η = {lr}: % from SGD {apart.tolist()}")


if __name__ == "__main__":
    main()
