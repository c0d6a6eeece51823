from phasecast.grokking import effective_width, quadratic, task, train

table, kept = task("addition", 23), {}
for width in (128, 256):
    *_, last = train(table, quadratic(table, width), steps=5000, lr=5e-3)
    kept[width] = effective_width(last.params()["V"])
    print(f"K = {width}: {kept[width]} units alive at step 5000; 2(p-1) = 44")
assert kept[128] == kept[256] == 44
