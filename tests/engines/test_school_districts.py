"""Reference values on real data, to seven digits: school districts, SAIPE 2019, weights 1, Laplace scale 1/epsilon."""

import pytest

import fairpost as fp
from support.mechanisms import saipe
from support.references import REFERENCES


@pytest.mark.parametrize(("column", "epsilon", "which", "alpha", "cost"), REFERENCES)
def test_districts(column, epsilon, which, alpha, cost):
    result = fp.audit(saipe(column), fp.Laplace.from_epsilon(epsilon), which, engine=fp.Exact(rtol=1e-8))
    assert result.alpha.value == pytest.approx(alpha, rel=1e-7)
    assert result.cost_of_privacy.share.value == pytest.approx(cost, rel=1e-7)
