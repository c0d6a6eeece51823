from fractions import Fraction

D, l = [2, 2, 2], 2  # widths 2-2-2, rank 0
M = -(-sum(D) // l)
a = sum(D) - (M - 1) * l
printed = Fraction(M * a + (M - 1) * sum(D), 4 * l) - Fraction(sum(x * x for x in D), 4)
ours = Fraction(M * a + (M - 1) * sum(D) - sum(x * x for x in D), 4)
print(f"printed {printed}, ours {ours}; a loss cannot have a negative λ")
assert printed < 0 < ours
