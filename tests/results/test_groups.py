"""Results by group: sums, every column of the table, and degenerate draws exactly and simulated."""

import numpy as np
import pytest

import fairpost as fp
from support.six_districts import MONEY, NOISE, X


def test_sums_of_groups_that_are_kept_and_groups_without_any_due(found):
    assert sum(g.bias.value for g in found[1].groups) == pytest.approx(0, abs=1e-9)
    for g in found[0].groups:
        mine = [h == g.group for h in X.groups]
        assert g.bias.half_width == pytest.approx(found[0].half_width[mine].sum(), rel=1e-6)
    assert fp.audit([1, 2], NOISE, "pos").groups == ()
    lost = fp.audit(fp.Counts([0, 0, 9], groups=["e", "e", "f"]), NOISE, "nonnegative").groups[0]
    assert (lost.relative, lost.worst_relative) == (None, None)


@pytest.mark.parametrize("budget", [MONEY, None])
def test_every_column_of_the_table_of_groups(budget):
    """From the biases of simulated results, whose intervals are wide enough to tell low from high."""
    results = fp.compare(X, NOISE, ["baseline", "pos"], budget=budget, engine="monte-carlo", runs=300)
    table = results.group_columns()
    members = [np.array([g == label for g in X.groups]) for label in ("n", "s")]
    wanted = {"group": ["n", "s"], "n": [3, 3], "true_share_sum": [results[0].truth[m].sum() for m in members]}
    for r in results:
        own = {}
        for m in members:
            b, h, due = r.bias[m], r.half_width[m], r.truth[m].sum()
            worst = int(np.flatnonzero(m)[np.argmin(b)])
            row = {
                "bias": b.sum(), "half_width": h.sum(), "accuracy": "interval", "bias_money": b.sum() * MONEY,
                "relative_bias": b.sum() / due, "relative_half_width": h.sum() / due, "alpha": np.ptp(b),
                "alpha_low": max(0.0, np.max(b - h) - np.min(b + h)), "alpha_high": np.max(b + h) - np.min(b - h),
                "alpha_accuracy": "interval",
                "loses_most": X.ids[worst], "loses_most_name": X.names[worst], "loses_most_bias": r.bias[worst],
                "loses_most_relative_bias": r.bias[worst] / r.truth[worst], "rmse": np.sqrt(r.moments.mse[m].mean()),
            }  # fmt: skip
            for key, value in row.items():
                own.setdefault(f"{r.postprocess}_{key}", []).append(value)
            assert row["alpha_low"] < row["alpha"] < row["alpha_high"]
        wanted |= {key: values for key, values in own.items() if budget or not key.endswith("_money")}
    wanted["confidential"] = ["computed from true counts"] * 2
    assert list(table) == list(wanted)
    for key, values in wanted.items():
        told = list(table[key])
        assert told == (values if isinstance(values[0], str) else pytest.approx(values, rel=1e-9, abs=0)), key


def test_degenerate_by_group_means_the_same_exactly_and_simulated():
    """The mean over groups of the chance that a group's draw is degenerate, not the chance that some group has one."""
    x = fp.Counts([1, 2, 1, 1, 3, 0], groups=["a", "a", "b", "b", "c", "c"])
    noise = fp.Laplace(3.0)
    exact = fp.audit(x, noise, "baseline", by_group=True, engine="exact")
    alone = [fp.audit(x.values[k : k + 2], noise, "baseline", engine="exact").rule.degenerate for k in (0, 2, 4)]
    assert exact.rule.degenerate == pytest.approx(np.mean(alone), rel=1e-9)
    assert exact.rule.degenerate < 0.9 * (1 - np.prod([1 - p for p in alone]))  # the other meaning
    runs = 20_000
    drawn = fp.audit(x, noise, "baseline", by_group=True, engine="monte-carlo", runs=runs)
    # groups are independent: the deviation of the share of (draw, group) pairs; 5 of them, chance below 1e-6
    deviation = np.sqrt(sum(p * (1 - p) for p in alone)) / 3 / np.sqrt(runs)
    assert abs(drawn.rule.degenerate - exact.rule.degenerate) < 5 * deviation
