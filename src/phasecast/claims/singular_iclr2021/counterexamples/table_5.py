from phasecast.studies.posterior.printed_tables import PRINTED

for panel in "abcd":
    for method, (slope, _) in PRINTED["4" + panel].items():
        print(panel, method, slope, PRINTED["5" + panel][method][0])
        assert slope == PRINTED["5" + panel][method][0] or slope != slope
