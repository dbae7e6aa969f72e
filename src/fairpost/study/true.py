"""Questions about true counts: audit, plan, sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import structs

from fairpost.audit import compare, method_for
from fairpost.budgets import Budget
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.io import read_counts
from fairpost.noise import Law
from fairpost.plan import frontier, plan, sweep
from fairpost.problems import Programme
from fairpost.results import Audit, Comparison, Curve, Frontier, Plans
from fairpost.results.targets import LIMITS, Targets
from fairpost.study import parts as of
from fairpost.study.study import LEVELS_ARE_COMMANDS, Given, Loaded, Progress, Say, Study, law_of, need_levels, silent

if TYPE_CHECKING:
    from fairpost.engines.choose import Choice
    from fairpost.release.statement import Stated


class _OfTrueCounts(Study, frozen=True, kw_only=True):
    """What an audit, a plan and a sweep have in common."""

    if TYPE_CHECKING:  # each type has them in the order of its help
        data: of.Table = of.Table()
        noise: Any = None
        rules: tuple[str, ...] = ()
        problem: of.Problem = of.Problem()
        engine: of.Engine = of.Engine()
        levels: of.Levels = of.Levels()
        words: of.MoneyWords = of.MoneyWords()

    def load(self, say: Say | None = None) -> Loaded:
        """The true counts of the file, the budget and the law."""
        from fairpost.io.tables import read_group_budgets

        if self.levels.levels is not None:
            raise UnsupportedError(LEVELS_ARE_COMMANDS)
        self.noise.look()  # what is wrong with noise or engine is said before a file is read
        self.engine.made()
        read = self.columns | {"label": self.data.label, "keep": getattr(self.data, "keep", ()), "say": say}
        budget: Budget | None
        if self.problem.group_budget is None:
            counts, budget = read_counts(self.data.file, **read), self.problem.budget
        else:
            counts, budget = read_group_budgets(self.data.file, self.problem.group_budget, **read)
        return Loaded(counts, budget, law_of(self, budget, say))

    def asked(self, loaded: Loaded, progress: Any = None) -> Given:
        """What the verbs take beside counts, noise and rules."""
        return loaded.law | {
            "engine": self.engine.made(progress),
            "total": self.problem.total,
            "budget": loaded.budget,
            "by_group": self.problem.by_group,
        }


class AuditStudy(_OfTrueCounts, frozen=True, kw_only=True, tag_field="command", tag="audit"):
    """Who gains and who loses from post-processing."""

    data: of.KeptTable = of.KeptTable()
    reading: of.Reading = of.Reading()
    noise: of.StatedNoise = of.StatedNoise()
    rules: of.AnyRules = ()
    problem: of.Problem = of.Problem()
    targets: Targets = Targets()
    levels: of.AuditLevels = of.AuditLevels()
    engine: of.LongEngine = of.LongEngine()
    output: of.AuditOutput = of.AuditOutput()
    words: of.MoneyWords = of.MoneyWords()

    def check(self) -> None:
        """An audit of a hierarchy does not look at everything, and leaves nothing aside."""
        if self.levels.levels is None and self.noise.statement is None:
            need_levels(self.levels, self.rules, self.engine.engine)
        elif self.levels.levels is not None:
            given = self.flat()
            typed = [name for name in OF_TABLES if given[name]]
            if typed:
                raise ParameterError(f"`{typed[0]}` is for audits without `levels`, got both")

    def stated(self, say: Say | None = None) -> tuple[AuditStudy, Stated | None]:
        """With the mechanism, the rule and the total of a finished release, where a statement is given; and the statement."""
        if self.noise.statement is None:
            return self, None
        from fairpost.release.statement import stated

        self.noise.refuse_beside("statement")
        found = stated(self.noise.statement)
        if found.note and say is not None:
            say(found.note)
        if found.levels is not None:
            return self, found
        amount: Given = {found.parameter: found.scale, "sensitivity": found.sensitivity, "delta": found.delta}
        noise = of.StatedNoise(mechanism=found.mechanism, **amount)
        total = found.total if self.problem.total is None else self.problem.total
        problem = structs.replace(self.problem, by_group=self.problem.by_group or found.by_group, total=total)
        rules = self.rules or (found.postprocess,)
        return structs.replace(self, noise=noise, problem=problem, rules=rules), found

    def resolved(self, say: Say | None = None) -> AuditStudy:
        """With what a statement says; a release of levels is for the command."""
        study, found = self.stated(say)
        if found is not None and found.levels is not None:
            raise UnsupportedError(LEVELS_ARE_COMMANDS)
        return study

    def find(self, loaded: Loaded, progress: Progress = silent) -> Comparison:
        """`fp.compare`, with the frontier where it was asked for."""
        asked = self.asked(loaded, lambda done, most: progress(done, most, "simulating"))
        progress(0, None, "simulating" if self.engine.engine == "monte-carlo" else "integrating")
        rules = self.rules or loaded.usual()
        results = compare(loaded.counts, self.noise.law, rules, targets=self.targets, **asked)
        if self.output.frontier:
            progress(0, None, "fairness against accuracy")
            results = replace(results, frontier=self.frontier(results, loaded))
        return results

    def explain(self, loaded: Loaded) -> tuple[Choice, ...]:
        """Who answers each rule, where that was asked for."""
        if not self.output.explain:
            return ()
        rules = self.rules or loaded.usual()
        return method_for(loaded.counts, self.noise.law, rules, **self.asked(loaded))

    def frontier(self, results: Comparison, loaded: Loaded) -> Frontier:
        """Of the task of the results, beside them."""
        first = results.first
        if isinstance(first.problem, Programme) or not isinstance(first.mechanism, Law):
            raise ParameterError("`frontier` is for shares in proportion and for counts, got a programme")
        allocation = first.problem.task == "allocation"
        mine: list[Audit] = [r for r in results if r.overall.unit == first.overall.unit]
        return frontier(
            first.counts,
            first.mechanism,
            "pos-threshold" if allocation else "simplex-threshold",
            beside=mine,
            total=self.problem.total,
            budget=loaded.budget if allocation else None,
            by_group=self.problem.by_group,
        )


OF_TABLES = ("label", "keep", "frontier", "csv_groups", "map", "map_key", *LIMITS)
"""Fields of an audit that mean nothing for a hierarchy."""


class _AgainstNoise(_OfTrueCounts, frozen=True, kw_only=True):
    """What a plan and a sweep have in common."""

    if TYPE_CHECKING:
        noise: of.Range = of.Range()

    def check(self) -> None:
        """What is for levels has them."""
        if self.levels.levels is None:
            need_levels(self.levels, self.rules, self.engine.engine)
            if self.noise.rho is not None:
                raise ParameterError(f"`rho` needs `levels`, got {self.noise.rho!r} without")

    def along(self, loaded: Loaded) -> Given:
        """What both hand on."""
        return self.asked(loaded) | {"epsilon": self.noise.neighbours.epsilon, "currency": self.words.currency}


class PlanStudy(_AgainstNoise, frozen=True, kw_only=True, tag_field="command", tag="plan"):
    """The most noise that keeps the harm below limits."""

    answer: ClassVar[str] = "plans"
    data: of.Table = of.Table()
    reading: of.Reading = of.Reading()
    noise: of.Range = of.Range()
    targets: of.PlanTargets = of.PlanTargets()
    rules: of.AnyRules = ()
    problem: of.Problem = of.Problem()
    engine: of.Engine = of.Engine()
    output: of.Output = of.Output()
    words: of.MoneyWords = of.MoneyWords()
    levels: of.PlanLevels = of.PlanLevels()

    def check(self) -> None:
        """A plan has a target; of levels it is another one."""
        super().check()
        if self.levels.levels is None and not self.targets:
            raise ParameterError(f"a plan must have a target of {', '.join(f'`{name}`' for name in LIMITS)}, got none")

    def find(self, loaded: Loaded, progress: Progress = silent) -> Plans:
        """`fp.plan`."""
        return plan(
            loaded.counts,
            self.noise.kind,
            list(self.rules or loaded.usual()),
            spreads=self.noise.levels,
            progress=progress,
            any_error=self.targets.any_error,
            **self.targets.to_dict(),
            **self.along(loaded),
        )


class SweepStudy(_AgainstNoise, frozen=True, kw_only=True, tag_field="command", tag="sweep"):
    """The harm against the noise."""

    answer: ClassVar[str] = "curve"
    data: of.Table = of.Table()
    reading: of.Reading = of.Reading()
    noise: of.Range = of.Range()
    rules: of.AnyRules = ()
    problem: of.Problem = of.Problem()
    engine: of.Engine = of.Engine()
    output: of.Output = of.Output()
    words: of.MoneyWords = of.MoneyWords()
    levels: of.SweepLevels = of.SweepLevels()

    def find(self, loaded: Loaded, progress: Progress = silent) -> Curve:
        """`fp.sweep`."""
        made = [self.noise.kind(s) for s in self.noise.levels]  # type: ignore[call-arg]
        rules = self.rules or loaded.usual()
        return sweep(loaded.counts, made, rules, progress=progress, **self.along(loaded))
