from phasecast import llc
from phasecast.claims.grokking_cullen2026.studies import trained_problem
from phasecast.sampling import Fixed

model = trained_problem(17, 64, fraction=0.5)
as_printed = llc(*model, nbeta=30.0, gamma=5.0, sampler=Fixed("sgld", 1e-4, draws=600, burn_in=100), chains=3).estimate
converged = llc(*model, nbeta=30.0, gamma=5.0, sampler="langevin", chains=4, target=0.03, seconds=None).value
print(f"SGLD as printed {as_printed:.0f}, converged {converged:.0f}")
assert as_printed < 0.5 * converged
