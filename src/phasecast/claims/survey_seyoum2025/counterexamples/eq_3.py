import numpy as np

from phasecast.claims.survey_seyoum2025.errors import bayes_errors

x, w = np.random.default_rng(0).normal(size=400), np.linspace(-0.5, 0.5, 201)
bg, _, _, cv, _ = bayes_errors(w, np.full(201, 1 / 201), x)
entropy = np.mean(x**2) / 2 + np.log(2 * np.pi) / 2  # −Σ log q(x_i)/n, the loss CvL is the error Cv plus this
print(f"2λ = 1; n(Bg + CvL) = {400 * (bg + cv + entropy):.0f}, n(Bg + Cv) = {400 * (bg + cv):.2f}")
assert abs(400 * (bg + cv) - 1) < 0.2 and 400 * (bg + cv + entropy) > 500
