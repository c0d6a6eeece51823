from phasecast.models import fourier_solution, modular_table, quadratic_network

x, y = modular_table(5)
w = fourier_solution(5, 4)
rest = quadratic_network(w, x) - y
rest = abs(rest - rest.mean(0)).max()
print(f"{w['V'].shape[1]} units are exact to {rest:.0e}; printed at least {2 * 5 - 1}")
assert w["V"].shape[1] < 9 and rest < 1e-12
