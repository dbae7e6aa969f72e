"""Reference values on real data, to seven digits: school districts, SAIPE 2019, weights 1, Laplace scale 1/epsilon."""

REFERENCES = [
    # column, epsilon, which, alpha, cost of privacy as a share of the budget
    ("poor_5_17", 0.1, "baseline", 1.2603535e-05, 3.8936241e-04),
    ("poor_5_17", 0.1, "pos", 6.0334363e-07, 3.2614418e-04),
    ("poor_5_17", 0.01, "baseline", 7.5503357e-04, 2.2084438e-02),
    ("poor_5_17", 0.01, "pos", 7.1531610e-06, 1.3192897e-02),
    ("poor_5_17", 0.001, "baseline", 1.1301323e-02, 2.7480851e-01),
    ("poor_5_17", 0.001, "pos", 1.2032875e-04, 1.5749411e-01),
    ("pop", 0.1, "baseline", 1.63506764e-08, 9.3531270e-08),  # rare clipping: 3.3 districts on average
    ("pop", 0.1, "pos", 1.41492433e-08, 9.3114906e-08),
]
