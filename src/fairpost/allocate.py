"""The verb of an outside analyst: allocate(noisy, weights, how, mechanism) -> shares, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.budgets import BY_LAW, GIVEN, NOISY, Budget, GroupBudgets, among_groups, several, whole
from fairpost.counts import Counts, Rows, index_of
from fairpost.errors import CountsError, ParameterError, ToleranceError, UnsupportedError
from fairpost.estimate import law_interval, law_plug_in, plug_in, share_interval
from fairpost.noise import Law, Mechanism, as_mechanism
from fairpost.partition import Partition
from fairpost.problems import Programme
from fairpost.results.allocation import Allocation
from fairpost.rules import PAYING, POSTPROCESSINGS
from fairpost.rules.allocation import Allocating
from fairpost.rules.base import finite_rows
from fairpost.rules.programme import Paying
from fairpost.rules.programme.paying import SAME

Floats = NDArray[np.float64]
ALLOCATIONS = tuple(name for name, kind in POSTPROCESSINGS.items() if issubclass(kind, Allocating))
"""The post-processings that share a budget, by name."""


def allocate(
    noisy: ArrayLike,
    weights: ArrayLike | None = None,
    how: str = "pos",
    mechanism: Mechanism | None = None,
    *,
    budget: Budget | None = None,
    ids: Iterable[Any] | None = None,
    groups: Iterable[Any] | None = None,
    by_group: bool = False,
    names: Iterable[Any] | None = None,
    kept: Mapping[str, Iterable[Any]] | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
    estimate_bias: bool = False,
    replicates: int = 10,
    seed: int = 0,
) -> Allocation:
    """Shares of 1 from noisy counts alone. Nothing true is needed, so nothing private is spent.

    The result can be used as the array of shares. With the noise, which is public, it also says where each true share lies.

    Parameters
    ----------
    noisy
        The noisy counts: one vector, or the rows of a matrix (shares only).
    weights
        a, the formula's factors, one per entity. Default: 1.
    how
        "pos" (the paper's projection), "baseline" or "pos-threshold", which needs the mechanism.
    mechanism
        The noise that was added. With its law known, each entity gets an interval for its true share.
    budget
        Money to share, for results in money. With `by_group` one number is split among the groups by the shares of their
        noisy sums; a mapping from group to amount (or a sequence in the order of first appearance) gives each its own.
    ids, groups, names, kept
        Labels, one per entity, for tables; what people call each; columns to carry along. Default: the positions, no groups.
    by_group
        Whether each group shares a budget of its own. Shares are then of the whole budget, or without one of each group's.
    confidence, simultaneous
        How surely an interval covers its own true share, or with `simultaneous` all of them together.
    estimate_bias, replicates, seed
        Whether to estimate the bias of each share too, and from how many bootstrap draws its error (`estimate.plug_in`).

    """
    if how not in ALLOCATIONS:
        raise ParameterError(f"`how` must be one of {', '.join(ALLOCATIONS)}, got {how!r}")
    mechanism = None if mechanism is None else as_mechanism(mechanism)
    if POSTPROCESSINGS[how].needs_noise and mechanism is None:
        raise ParameterError(
            f"{how} needs the noise: give `mechanism` (one of --epsilon, --scale, --sigma and --rho), got none"
        )
    rows = finite_rows(noisy)
    ids = index_of(noisy, weights=weights, groups=groups, names=names) if ids is None else ids
    about = Counts(np.zeros(rows.shape[-1]), ids=ids, weights=weights, groups=groups, names=names, kept=kept)  # checked
    law = mechanism if isinstance(mechanism, Law) else None
    _possible(rows, law, mechanism, simultaneous, estimate_bias)
    parts = _partition(about, rows, budget, by_group)
    pi = POSTPROCESSINGS[how](weights, parts)  # type: ignore[call-arg]
    shares = (pi if mechanism is None else pi.for_mechanism(mechanism))(rows)
    budgets = None if parts is None or budget is None else divided(budget, rows, about.weights, parts)
    interval, bias, missing = None, None, None
    if law is not None and rows.ndim == 1:
        given = GIVEN in ("" if budgets is None else budgets.words) or (parts is not None and budgets is None)
        within = parts if given else None  # one budget, split: what is due is the same as without groups
        interval = share_interval(rows, law, weights, confidence=confidence, simultaneous=simultaneous, within=within)
        if budgets is not None and given:
            interval = interval.scaled(budgets.part)
    if law is not None and estimate_bias:
        try:  # by group of the shares inside each group, with the split as it came out
            bias = plug_in(rows, law, about.weights, how, within=parts, replicates=replicates, seed=seed)
            bias = bias if budgets is None else bias.scaled(budgets.part)
        except CountsError as why:
            missing = str(why)
    return Allocation(
        how=how,
        noisy=_frozen(rows),
        shares=shares if budgets is None else shares * budgets.part,
        weights=about.weights,
        ids=about.ids,
        groups=about.groups,
        mechanism=mechanism,
        budget=None if budget is None else whole(budget),
        budgets=budgets,
        grouped=by_group,
        names=about.names,
        kept=about.kept,
        interval=interval,
        bias=bias,
        missing=missing,
    )


def _partition(about: Counts, rows: Floats, budget: Budget | None, by_group: bool) -> Partition | None:
    """The groups that share a budget of their own, where they do."""
    if not by_group:
        if budget is not None and several(budget):
            raise ParameterError("budgets by group need `by_group`, got none")
        return None
    if about.groups is None:
        raise CountsError("shares by group need `groups`, got none")
    if rows.ndim != 1:
        raise ParameterError(f"shares by group are for one vector of noisy counts, got {len(rows)} rows")
    return Partition.of(about.groups)


def divided(budget: Budget, noisy: Floats, weights: Floats, parts: Partition) -> GroupBudgets:
    """Each group's part of the budget: as given, or by the shares of the noisy group sums.

    A group's sum is much better known than its entities' counts: its error grows as the root of how many they are. A sum
    below 0 counts as 0, as a group cannot owe money.
    """
    if several(budget):
        return among_groups(budget, Counts(np.zeros(noisy.size), weights=weights), parts)
    sums = np.maximum(parts.sums(parts.gather(noisy * weights)), 0.0)
    if not sums.sum() > 0:
        raise CountsError("one budget is split by the noisy sums of the groups, got none above 0")
    total, share = whole(budget), sums / sums.sum()
    amounts = dict(zip(parts.labels, (total * share).tolist(), strict=True))
    return GroupBudgets(amounts, parts.scatter(np.asarray(parts.spread(share), dtype=np.float64)), NOISY)


def by_law(
    noisy: Rows,
    law: Programme,
    how: str = "as-written",
    mechanism: Mechanism | None = None,
    *,
    last: Floats | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
    base_noise: Mechanism | str | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
    replicates: int = 10,
    seed: int = 0,
) -> Allocation:
    """Payments under a law from noisy counts alone; with the noise an interval of the true ones and an estimate of the bias.

    `last`: last year's payments as shares of this year's appropriation; `base_noise`: that of the published base populations,
    a mechanism or "same". By group one budget is split by what the law pays the groups on the noisy counts.
    """
    if how not in PAYING:
        raise ParameterError(f"under a programme money goes by {', '.join(PAYING)}, got {how}")
    if mechanism is None and (PAYING[how].needs_noise or base_noise == SAME):
        what = how if PAYING[how].needs_noise else "noise on the base like that of the counts"
        raise ParameterError(f"{what} needs the noise: one of --epsilon, --scale, --sigma and --rho, got none")
    if budget is not None and several(budget) and not by_group:
        raise ParameterError("budgets by group need `by_group`, got none")
    base = noisy.base if noisy.base is None or base_noise is None else np.maximum(noisy.base, 0.0)
    mechanism = None if mechanism is None else as_mechanism(mechanism)
    cut = Counts(np.maximum(noisy.values, 0.0), noisy.ids, noisy.weights, noisy.groups, base=base)
    pi = PAYING[how].from_counts(cut, by_group=by_group, programme=law, last=last, base_noise=base_noise)
    pi = pi if mechanism is None else pi.for_mechanism(mechanism)
    budgets, pi = _law_budgets(pi, noisy.values, cut, budget)
    applied, shares = pi.programme, pi(noisy.values)
    interval, bias, missing = None, None, None
    if isinstance(mechanism, Law):
        try:
            interval = law_interval(
                noisy.values, applied, mechanism, confidence=confidence, simultaneous=simultaneous, seed=seed
            )
            bias = law_plug_in(noisy.values, applied, mechanism, how, replicates=replicates, seed=seed)
        except (UnsupportedError, ToleranceError) as why:
            missing = str(why)
    if budgets is not None:
        shares = shares * budgets.part
        interval = None if interval is None else interval.scaled(budgets.part)
        bias = None if bias is None else bias.scaled(budgets.part)
    return Allocation(
        how=how,
        noisy=_frozen(noisy.values),
        shares=shares,
        weights=cut.weights,
        ids=cut.ids,
        groups=cut.groups,
        mechanism=mechanism,
        budget=None if budget is None else whole(budget),
        budgets=budgets,
        grouped=by_group,
        names=noisy.names,
        kept=noisy.kept,
        interval=interval,
        bias=bias,
        missing=missing,
    )


def _law_budgets(pi: Paying, noisy: Floats, cut: Counts, budget: Budget | None) -> tuple[GroupBudgets | None, Paying]:
    """Each group's part of the money, and the rule with last year's payments as shares of those parts."""
    law = pi.programme
    if law.partition is None or budget is None:
        return None, pi
    if several(budget):
        budgets = among_groups(budget, cut, law.partition)
    else:
        due = np.maximum(replace(pi, programme=law.as_one())(noisy), 0.0)
        budgets = replace(among_groups(budget, cut, law.partition, due / due.sum()), words=BY_LAW)
    return budgets, replace(pi, programme=law.in_parts(budgets.part))


def _possible(rows: Floats, law: Law | None, mechanism: Mechanism | None, simultaneous: bool, estimate: bool) -> None:
    """What was asked for can be had: no argument is dropped in silence."""
    for asked, name in ((simultaneous, "simultaneous"), (estimate, "estimate_bias")):
        if asked and law is None:
            got = "none" if mechanism is None else f"{mechanism.name} noise, whose law is not known"
            raise ParameterError(f"`{name}` needs the noise: give `mechanism`, got {got}")
        if asked and rows.ndim != 1:
            raise ParameterError(f"`{name}` is for one vector of noisy counts, got {len(rows)} rows")


def _frozen(rows: Floats) -> Floats:
    copy = rows.copy()
    copy.flags.writeable = False
    return copy
