from phasecast.claims.survey_seyoum2025.learning import expansion

for n in (100, 1600):
    row = expansion(2, n, beta=1.0)
    y1, y2, y3 = row["Y1"], row["Y2"], row["Y3"]  # cumulants of log p
    ours = row["WAIC"] - (-y1 + y2 / 2 - y3 / 6)
    printed = row["WAIC"] - (y1 + y2 / 2 + y3 / 6)  # those of f = -log p in their place
    print(f"n = {n}: n × remainder is {n * ours:.1e}, with cumulants of f {n * printed:.2f}; n Y2 = {n * y2:.2f}")
assert abs(n * ours) < 0.01 < 0.1 < abs(n * printed)
