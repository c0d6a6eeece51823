from phasecast.grokking import effective_width, quadratic, task, train

table, widths = task("addition", 23), {}
for width in (128, 256):
    *_, last = train(table, quadratic(table, width), steps=5000, lr=5e-3)
    widths[width] = effective_width(last.params()["V"])
    print(f"K = {width}: {widths[width]} units in use at step 5000; 2(p-1) = 44")
assert widths[128] == widths[256] == 44
