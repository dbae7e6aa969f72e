"""--programme: the law, last year's payments and the noise of the base, as arguments of the library."""

from __future__ import annotations

from typing import Any

from fairpost.budgets import Budget, whole
from fairpost.cli import options as o
from fairpost.errors import ParameterError
from fairpost.noise import MECHANISMS, Law


def law_of(file: str, given: o.Given, budget: Budget | None) -> dict[str, Any]:
    """The law, the noise of its base and, with hold-harmless, last year's payments, as arguments of `audit`; without --programme none."""
    if given.get("programme") is None:
        return {}
    from fairpost.io.tables import read_column, read_programme

    law = read_programme(given["programme"])
    found: dict[str, Any] = {"programme": law}
    if given.get("base_noise") is not None:
        found["base_noise"] = base_noise_of(given)
    if law.hold_harmless is None:
        return found
    if budget is None:
        raise ParameterError(
            f"{law.name}: hold-harmless compares money with last year's, so it needs --budget, got none"
        )
    last = read_column(file, law.hold_harmless.last, "last year's payments", **o.columns(given))
    return found | {"last": last / whole(budget)}


def base_noise_of(given: o.Given) -> Law | str:
    """The noise of the base: a number is the parameter of the kind of noise that the counts have."""
    text = str(given["base_noise"]).strip()
    if text == "same":
        return text
    try:
        spread = float(text)
    except ValueError:
        raise ParameterError(f"--base-noise must be a number or same, got {text!r}") from None
    return MECHANISMS[given["mechanism"]](spread)  # type: ignore[call-arg]
