"""Every term of the pages, explained to people who have never heard of epsilon."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """One entry: its anchor is g-<key>."""

    key: str
    title: str
    text: str


TERMS = (
    Term(
        "count",
        "True count",
        "The number of people (or households, ...) that an entity really has. It is confidential.",
    ),
    Term(
        "weight",
        "Weight",
        "A factor of the allocation formula, such as spending per pupil. An entity's due is proportional to its "
        "weight times its count.",
    ),
    Term(
        "noise",
        "Noise",
        "A random number, as often above as below zero, that is added to every count before publication, so that "
        "hardly anything can be learned from the published counts about any one person. This is called differential "
        "privacy.",
    ),
    Term(
        "epsilon",
        "Epsilon (privacy loss)",
        "How much a publication can reveal about one person. Close to 0: strong protection and much noise. Large:"
        " weak protection and little noise. Epsilon depends on the sensitivity: how much one person can change "
        "the counts.",
    ),
    Term("delta", "Delta", "Gaussian noise keeps its promise epsilon except with a small chance, delta."),
    Term(
        "scale",
        "Scale and sigma",
        "How large the noise is, in the unit of the counts. Laplace noise of scale b has the standard deviation "
        "1.41 b and epsilon = sensitivity / b; Gaussian noise is given by its standard deviation, sigma. The "
        "discrete kinds take whole numbers only.",
    ),
    Term(
        "post",
        "Post-processing",
        "What is done with noisy counts to make them usable: no negative counts, a total that is right, shares "
        "that add up to 1. It reveals nothing more about anybody, but it moves expected values. The ones that "
        "this program knows follow.",
    ),
    Term(
        "none",
        "none",
        "The noisy counts as they are. Right on average for everybody, but counts can be negative and totals wrong.",
    ),
    Term(
        "nonnegative",
        "nonnegative",
        "A noisy count below zero becomes zero. That raises small counts on average; nobody loses, and the total "
        "grows.",
    ),
    Term(
        "sum",
        "sum",
        "Everybody gets the same shift, so that the total is the known one. Right on average, but counts can be "
        "negative.",
    ),
    Term(
        "sum-clipped",
        "sum-clipped",
        "As sum, and then what is below zero becomes zero. The total is no longer exact.",
    ),
    Term(
        "simplex",
        "simplex",
        "The non-negative counts with the known total that lie closest to the noisy ones (a projection; pi S+ in "
        "the paper). It takes the same number T from everybody and cuts at zero.",
    ),
    Term(
        "simplex-threshold",
        "simplex-threshold",
        "As simplex, but a count is kept only where it exceeds a threshold that fits the noise; others become "
        "zero. This lowers the unfairness. The price: small entities are published as zero more often, and each "
        "single release is a little less accurate.",
    ),
    Term(
        "baseline",
        "baseline",
        "Negative counts become zero, and the budget is shared in proportion to the result. The clipping makes "
        "the sum too large, so large entities get too little.",
    ),
    Term(
        "pos",
        "pos (projection onto shares)",
        "The budget is shared in proportion to the noisy counts, and the shares, some of them negative, are "
        "projected onto non-negative shares with the sum 1.",
    ),
    Term(
        "pos-threshold",
        "pos-threshold",
        "As pos, but a share is kept only where it exceeds a threshold that fits the noise. Under Laplace noise "
        "no other non-negative rule of this kind has less unfairness over all counts that there could be; over one "
        "known list of counts another rule can have less. The price: small entities receive nothing more often, and "
        "each single allocation is a little less accurate.",
    ),
    Term(
        "as-written",
        "as-written",
        "The law, with the noisy counts in place of the true ones: thresholds, brackets and all. Where a law bends "
        "upwards noise is paid for, and whoever is near a threshold is let in or left out by chance.",
    ),
    Term(
        "levelled",
        "levelled",
        "The law with its bends corrected for the noise and its jumps as written; no payment is negative. What the "
        "bend at the threshold pays too much is taken off the first payments above it.",
    ),
    Term(
        "signed",
        "signed",
        "The payment that is right on average for everybody, before the appropriation is shared. Near a threshold "
        "it is negative at some noisy counts and far above the law's at others.",
    ),
    Term(
        "no-loss",
        "no-loss",
        "The cheapest payment of at least 0 by which nobody expects less than the law gives, before the "
        "appropriation is shared.",
    ),
    Term(
        "expectation",
        "In expectation",
        "The average over very many repetitions of the noise. One single publication can be off in either "
        "direction; expectation is what remains when luck is averaged out.",
    ),
    Term(
        "bias",
        "Bias",
        "What an entity gets in expectation, less what it is due. Above zero it gains, below zero it loses. Noise"
        " alone has no bias; post-processing brings it in.",
    ),
    Term(
        "share",
        "Share and money",
        "A share is a part of the whole budget. Bias in shares times the budget is bias in money.",
    ),
    Term(
        "alpha",
        "Alpha (unfairness)",
        "The largest bias less the smallest: how far the luckiest and the unluckiest entity lie apart in "
        "expectation. 0 means that all are treated alike.",
    ),
    Term(
        "total",
        "Total off by",
        "What all results add up to in expectation, less the true total: the sum of the biases. 0 for a rule that keeps the "
        "total; clipping alone at zero adds what it cuts off.",
    ),
    Term(
        "cost",
        "Cost of privacy",
        "The money that would have to be added to the budget so that no entity expects less than its due: the sum"
        " of all expected losses.",
    ),
    Term(
        "relative",
        "Relative to what is due",
        "A gain or loss in percent of what the entity should get: $4.87 million are 2.5 % of $198 million. Where nothing is "
        "due there is no percentage.",
    ),
    Term("loss", "Largest expected loss", "The loss of the entity that loses most in expectation."),
    Term(
        "bounds",
        "Bounds (Theorem 1)",
        "For simplex, a theorem gives a smallest and a largest possible alpha from simple sums. The value must "
        "lie between them, which is a check on it. Lemma 3 sharpens the upper bound where E[T] is known.",
    ),
    Term(
        "T",
        "T",
        "The number that simplex takes from every count so that the total holds after cutting at zero. E[T] is "
        "its expectation.",
    ),
    Term(
        "deviation",
        "Standard deviation",
        "How much an entity's result varies from one draw of the noise to the next.",
    ),
    Term(
        "rmse",
        "Typical error (RMSE)",
        "The root of the mean squared error over all entities: bias and variation together. It tells how far a "
        "single release is off.",
    ),
    Term(
        "zero",
        "Chance of receiving 0",
        "How often, over the draws of the noise, the entity's result is exactly zero.",
    ),
    Term(
        "degenerate",
        "Degenerate draw",
        "A draw of the noise for which a rule has no proper answer (all counts clipped to zero, say) and takes a "
        "fixed convention.",
    ),
    Term(
        "exact",
        "Exact",
        "Computed by integration, without chance. The error that comes with it is a bound on the numerical error.",
    ),
    Term(
        "expansion",
        "Expansion",
        "Computed without chance, from what very many entities would do and the first correction for how many there are. The "
        "error that comes with it is the size of what is left out: an estimate of the error, not a bound on it.",
    ),
    Term(
        "conditional",
        "Conditional means",
        "The entity's own noise is integrated, that of all others drawn at points that are spread evenly. Such a number has an "
        "interval, narrower than that of a simulation; the same seed gives the same number again.",
    ),
    Term(
        "simulated",
        "Simulated (Monte-Carlo)",
        "Estimated from many random draws of the noise. Such a number has a standard error and an interval; the "
        "same seed gives the same number again.",
    ),
    Term(
        "interval",
        "Interval and confidence",
        "Between these two numbers the truth lies: surely (up to rounding) for exact results, as far as the stated error can "
        "be trusted for expansions, with the stated confidence for conditional means and simulated ones.",
    ),
    Term(
        "simultaneous",
        "Simultaneous interval",
        "Intervals that hold for all entities at once, with the stated confidence. They are wider than one "
        "interval alone, because the most affected entity is picked after looking.",
    ),
    Term(
        "unresolved",
        "Not resolved",
        "The runs, or the points of conditional means, cannot tell the number from zero. More would.",
    ),
    Term(
        "error",
        "Error of a bias",
        "Exact: a bound on the numerical error. Expansion: about the size of what is left out. Conditional means: half the "
        "interval. Simulated: the standard error.",
    ),
    Term("size", "Size bin", "All entities whose true count lies in a range."),
)
