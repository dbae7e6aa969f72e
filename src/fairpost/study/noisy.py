"""Questions about noisy counts: allocate, project."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar

from msgspec import structs

from fairpost.allocate import ALLOCATIONS, by_law
from fairpost.allocate import allocate as shares_of
from fairpost.budgets import Budget
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.fields import one_of
from fairpost.hierarchy.rules import RULES
from fairpost.io import Rows, read_rows
from fairpost.project import RELEASES
from fairpost.project import project as projection_of
from fairpost.results import Allocation, Projection
from fairpost.rules import PAYING
from fairpost.study import parts as of
from fairpost.study.study import LEVELS_ARE_COMMANDS, Given, Loaded, Progress, Say, Study, law_of, need_levels, silent


class AllocateStudy(Study, frozen=True, kw_only=True, tag_field="command", tag="allocate"):
    """Shares of a budget from noisy counts."""

    answer: ClassVar[str] = "found"
    several: ClassVar[bool] = True
    data: of.KeptTable = of.KeptTable()
    reading: of.Reading = of.Reading()
    noise: of.Noise = of.Noise()
    rules: Annotated[
        tuple[Annotated[str, one_of((*ALLOCATIONS, *PAYING))], ...],
        of.rules(
            f"{', '.join(ALLOCATIONS)}; with --programme: {', '.join(PAYING)}. Repeatable.  "
            "[default: all three, pos-threshold only where the noise is given; with --programme: as-written]",
            (*ALLOCATIONS, *PAYING),
        ),
    ] = ()
    problem: of.Sharing = of.Sharing()
    intervals: of.ShareIntervals = of.ShareIntervals()
    output: of.Output = of.Output()
    words: of.MoneyWords = of.MoneyWords()

    def load(self, say: Say | None = None) -> Loaded:
        """The noisy counts, the budget and the law."""
        from fairpost.io.tables import read_row_budgets

        if self.noise.given:
            self.noise.look()
        read = self.columns | {"label": self.data.label, "keep": self.data.keep, "say": say}
        budget: Budget | None
        if self.problem.group_budget is None:
            noisy, budget = read_rows(self.data.file, **read), self.problem.budget
        else:
            noisy, budget = read_row_budgets(self.data.file, self.problem.group_budget, **read)
        return Loaded(noisy, budget, law_of(self, budget, say))

    def find(self, loaded: Loaded, progress: Progress = silent) -> tuple[Allocation, ...]:
        """`fp.allocate` for every rule, or the law: its weights are public, its counts are noisy, its base is either."""
        noisy, law, noise = loaded.counts, dict(loaded.law), self.noise.maybe
        settings = {} if noise is None else structs.asdict(self.intervals)
        same: Given = {"budget": loaded.budget, "by_group": self.problem.by_group, **settings}
        if law:
            programme = law.pop("programme")
            return tuple(by_law(noisy, programme, how, noise, **same, **law) for how in self.rules or loaded.usual())
        names = {"ids": noisy.ids, "groups": noisy.groups, "names": noisy.names, "kept": noisy.kept}
        rules = self.rules or tuple(k for k in ALLOCATIONS if k != "pos-threshold" or noise is not None)
        found = []
        for k, how in enumerate(rules):
            one = shares_of(
                noisy.values, noisy.weights, how, noise, **names, **same, estimate_bias=noise is not None
            )  # fmt: skip
            found.append(one)
            progress(k + 1, len(rules), "estimating biases")
        return tuple(found)


class ProjectStudy(Study, frozen=True, kw_only=True, tag_field="command", tag="project"):
    """Noisy counts to counts that are not negative and add up."""

    answer: ClassVar[str] = "found"
    data: of.KeptTable = of.KeptTable()
    reading: of.Reading = of.Reading()
    rule: Annotated[
        str | None,
        of.rules(
            f"{', '.join(RELEASES)}; with --levels: {', '.join(RULES)}.  [default: simplex]",
            (*RELEASES, *RULES),
            many=False,
        ),
    ] = None
    problem: of.Kept = of.Kept()
    levels: of.Levels = of.Levels()
    noise: of.Noise = of.Noise()
    output: of.Output = of.Output()
    words: of.Words = of.Words()

    def check(self) -> None:
        """Levels come with a table of their own."""
        if self.levels.levels is None:
            need_levels(self.levels, () if self.rule is None else (self.rule,))
            return
        for name, given in (("html", self.output.html), ("label", self.data.label), ("keep", self.data.keep)):
            if given:
                raise ParameterError(f"`{name}` is for projections without `levels`, got both")

    def load(self, say: Say | None = None) -> Rows:
        """The noisy counts."""
        if self.levels.levels is not None:
            raise UnsupportedError(LEVELS_ARE_COMMANDS)
        more: Given = {"label": self.data.label, "keep": self.data.keep, "total": self.problem.group_total, "say": say}
        return read_rows(self.data.file, **self.columns, **more)

    def find(self, loaded: Rows, progress: Progress = silent) -> Projection:
        """`fp.project`. Groups keep totals of their own where a column of them was named, or of their totals; else they are labels."""
        noisy, asked = loaded, self.problem
        total: Any = asked.total
        if noisy.totals is not None:
            if asked.total is not None:
                raise ParameterError("totals are given by `total` or by `group_total`, got both")
            each = noisy.totals.tolist()
            total = each[0] if noisy.groups is None else dict(zip(noisy.groups, each, strict=True))
        keeps = self.data.group is not None or isinstance(total, dict)
        found = projection_of(
            noisy.values,
            self.rule or "simplex",
            total,
            noisy.groups if keeps else None,
            self.noise.maybe,
            round=asked.whole,
            seed=asked.seed,
            ids=noisy.ids,
            names=noisy.names,
            kept=noisy.kept,
        )
        return found if keeps else replace(found, groups=noisy.groups)
