from phasecast import llc
from phasecast.claims.grokking_cullen2026.studies import trained_problem

settings = {"nbeta": 30.0, "gamma": 5.0, "sampler": "langevin", "chains": 4, "target": 0.03, "seconds": None}
narrow, wide = (llc(*trained_problem(17, K, fraction=0.5), **settings).value for K in (64, 128))
print(f"each extra unit adds {(wide - narrow) / 64:.2f} to the sampled coefficient, printed (3p-1)/2 = 25")
assert wide - narrow < 0.2 * 25 * 64
