"""plan and sweep: the answer meets its target, a little more noise does not, and refusals are told."""

import sys

import numpy as np
import pytest

import fairpost as fp
from fairpost.datasets import hawaii, synthetic_districts
from fairpost.errors import ParameterError
from fairpost.noise import Neighbours
from fairpost.plan import grid, plan, sweep

DISTRICTS = synthetic_districts(400)
NEAR = 1e-6
"""What a plan promises: within this part of the most noise that meets the target (and on the safe side of it)."""


@pytest.mark.parametrize(
    ("which", "target", "limit", "kind"),
    [
        ("pos", "loss", 2e4, fp.Laplace),
        ("pos", "cost", 5e6, fp.Laplace),
        ("baseline", "alpha", 1e-4, fp.Gaussian),
        ("baseline", "cost", 1e6, fp.DiscreteLaplace),
        ("pos-threshold", "loss", 1e4, fp.Laplace),
    ],
)
def test_the_answer_meets_the_target_and_a_little_more_noise_does_not(which, target, limit, kind):
    engine = "expansion" if which == "pos-threshold" else "exact"
    found = plan(
        DISTRICTS, kind, which, target=target, limit=limit, spreads=grid(1, 300, 7), budget=6.5e9, engine=engine
    )
    assert found.found is not None
    assert found.found.quantity(target).high <= limit
    more = kind(found.found.mechanism.spread * (1 + 2 * NEAR))
    (beyond,) = sweep(DISTRICTS, [more], [which], budget=6.5e9, engine=engine).points
    assert beyond.quantity(target).high > limit


def test_the_answer_agrees_with_an_independent_bisection():
    limit = 0.5
    found = plan(hawaii(), fp.Gaussian, "simplex", target="alpha", limit=limit, spreads=grid(5, 200, 9), engine="exact")
    low, high = 5.0, 200.0
    for _ in range(40):
        middle = np.sqrt(low * high)
        alpha = fp.audit(hawaii(), fp.Gaussian(middle), "simplex", engine="exact").alpha
        low, high = (middle, high) if alpha.high <= limit else (low, middle)
    # the answer lies up to NEAR below the root; the bisection is good to 1e-11
    assert found.found.mechanism.spread == pytest.approx(low, rel=1.5 * NEAR)


def test_no_noise_can_and_every_noise_can():
    none = plan(DISTRICTS, fp.Laplace, "baseline", target="loss", limit=1e-30, spreads=grid(1, 10, 3), engine="exact")
    assert none.found is None
    assert "no noise in the range" in none.message
    every = plan(DISTRICTS, fp.Laplace, "baseline", target="loss", limit=1.0, spreads=grid(1, 10, 3), engine="exact")
    assert every.found.mechanism.spread == 10.0
    assert "every noise in the range" in every.message


def test_a_curve_that_dips_again_is_told(monkeypatch):
    """Alpha against noise up, down, up: the answer is the end of the first stretch that meets the target."""
    from dataclasses import replace

    from fairpost.accuracy import Estimate
    from fairpost.results import Curve

    base = plan(hawaii(), fp.Laplace, "simplex", target="alpha", limit=1e9, spreads=grid(1, 2, 2)).curve[0]

    def fake(counts, mechanisms, postprocesses, *, progress=None, **_):
        def bump(s):
            return 1 + np.sin(np.log(s) * 4)

        made = tuple(replace(base, mechanism=m, alpha=Estimate(*[bump(m.spread)] * 3)) for m in mechanisms)
        return Curve(made, ())

    monkeypatch.setattr(sys.modules["fairpost.plan"], "sweep", fake)
    found = plan(hawaii(), fp.Laplace, "simplex", target="alpha", limit=1.5, spreads=grid(1, 20, 40))
    assert "meets it again" in found.message
    assert 4 * np.log(found.found.mechanism.spread) == pytest.approx(np.pi / 6, abs=1e-4)


def no_simulation():
    return fp.FirstOf((fp.Exact(), fp.Expansion()))


def test_refusals_are_listed_with_their_reason():
    found = sweep(hawaii(), [fp.Laplace(10.0)], ["simplex", "pos-threshold"], engine=no_simulation())
    refused = found.refused
    assert [p.postprocess for p in found.points] == ["simplex"]
    assert [r.postprocess for r in refused] == ["pos-threshold"]
    assert "pos-threshold: " in refused[0].reason
    assert "entities" in refused[0].reason


def test_points_carry_their_promise_and_the_largest_loss():
    about = Neighbours(sensitivity=2.0)
    (point,) = sweep(hawaii(), [fp.Laplace(10.0)], ["simplex"], epsilon=about.epsilon).points
    assert point.epsilon == 0.2
    result = fp.audit(hawaii(), fp.Laplace(10.0), "simplex")
    assert point.loss.value == -result.bias.min()
    assert point.loser == "Honolulu"
    assert point.to_dict()["largest_loss"]["id"] == "Honolulu"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(target="fun"), "`target`"),
        (dict(limit=0.0), "limit"),
        (dict(limit=float("nan")), "limit"),
        (dict(target="cost"), "for allocations"),
    ],
)
def test_bad_plans_are_named(change, says):
    given = dict(target="alpha", limit=1.0, spreads=grid(1, 2, 2)) | change
    with pytest.raises(ParameterError, match=says):
        plan(hawaii(), fp.Laplace, "simplex", **given)


@pytest.mark.parametrize("bad", [(0.0, 1.0, 3), (2.0, 1.0, 3), (1.0, 2.0, 1), (1.0, float("inf"), 3)])
def test_bad_grids_are_named(bad):
    with pytest.raises(ParameterError, match="range of noise"):
        grid(*bad)


@pytest.mark.parametrize("limit", [0.011, 0.0137, 0.02, 0.0333, 0.07])
def test_the_epsilon_and_the_noise_that_a_plan_prints_meet_its_target(tmp_path, limit):
    """Six digits are printed: epsilon rounded up, noise rounded down. Given back as they are, they keep alpha at the limit."""
    from click.testing import CliRunner

    from fairpost.cli import main

    table = tmp_path / "counts.csv"
    x = [40.0, 55.0, 70.0, 120.0]
    table.write_text("id,count\n" + "".join(f"{i},{v:g}\n" for i, v in enumerate(x)))
    words = ["plan", str(table), "--postprocess", "baseline", "--max-alpha", str(limit), "--points", "9"]
    done = CliRunner().invoke(main, words, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    row = next(line for line in done.output.splitlines() if line.strip(" │|").startswith("baseline") and "0." in line)
    epsilon, scale = [float(word) for word in row.replace("│", " ").replace("|", " ").split()[1:3]]
    for mechanism in (fp.Laplace.from_epsilon(epsilon), fp.Laplace(scale)):
        alpha = fp.audit(fp.Counts(x), mechanism, "baseline").alpha
        assert limit * (1 - 1e-4) <= alpha.high <= limit


def test_rounding_one_way_keeps_what_is_short():
    from decimal import ROUND_CEILING, ROUND_FLOOR

    from fairpost.cli.planning import _rounded

    assert [_rounded(v, ROUND_CEILING) for v in (0.2, 0.12345612, 3.0, 1e-7)] == ["0.2", "0.123457", "3", "1e-07"]
    assert [_rounded(v, ROUND_FLOOR) for v in (0.1, 0.1234569, 12345678.9)] == ["0.1", "0.123456", "1.23456e+07"]
