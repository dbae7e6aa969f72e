"""Programmes: compile and audit Title I on SAIPE 2019, and seats of 50 states. Bars: 50 ms (Laplace), 0.5 s (discrete Laplace), 1 s.

Where saipe_2019.csv is not found (FAIRPOST_DATA names its folder) the synthetic districts stand in, and it says so.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

import fairpost as fp
from fairpost.engines.montecarlo.seats import seat_changes
from fairpost.problems.programme import builtin_text
from fairpost.rules import PAYING
from timing import best, districts


def measured(call: Callable[[], object], repeats: int = 15) -> tuple[float, float]:
    """The fastest of several calls by the clock, and by the processor's time, which a busy machine does not stretch."""
    used = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        used.append(time.process_time() - start)
    return best(call, repeats), min(used)


def floors(x: fp.Counts) -> None:
    """Hold-harmless (last year: this year's payments, moved at random), a minimum for groups of a hundred, and both: 256 runs."""
    moved = np.random.default_rng(3).uniform(0.5, 1.5, x.n)
    counts = fp.Counts(x.values, ids=x.ids, base=x.base, groups=[str(i // 100) for i in range(x.n)])
    text = builtin_text("title1-targeted")
    held, least = text.replace("# hold_harmless", "hold_harmless"), text.replace("# minimum", "minimum")
    last = fp.Programme.named("title1-targeted").on(counts).truth(counts) * moved
    for name, law in (("hold-harmless", held), ("a minimum", least), ("both", held.replace("# minimum", "minimum"))):
        programme = fp.Programme.from_toml(law)
        asked = {"programme": programme, "last": last if programme.hold_harmless else None}
        pi = PAYING["as-written"].from_counts(counts, **asked).for_mechanism(fp.Laplace(10.0))
        field = best(lambda pi=pi: pi.mean_field(counts.values, fp.Laplace(10.0)), 1)
        run = partial(fp.audit, counts, fp.Laplace(10.0), "as-written", engine="monte-carlo", runs=256, **asked)
        print(f"targeted with {name}: mean field {field:.2f} s, 256 runs {best(run, 1):.2f} s")


def main() -> None:
    name, x = districts(base="pop_5_17")
    print(name)
    noises = (
        fp.Laplace(10.0),
        fp.Gaussian(14.0),
        fp.DiscreteLaplace(10.0),
        fp.DiscreteLaplace(100.0),
        fp.DiscreteGaussian(14.0),
    )
    for noise in noises:
        for name in ("basic", "concentration", "targeted"):
            law = f"title1-{name}"
            took, used = measured(partial(fp.audit, x, noise, "as-written", programme=law, engine="exact"))
            print(
                f"{noise.name} {noise.spread:g}, {law}: {1e3 * took:.1f} ms ({1e3 * used:.1f} ms of processor), law compiled anew"
            )
    for how in ("levelled", "signed", "no-loss"):
        took = best(partial(fp.audit, x, fp.DiscreteLaplace(10.0), how, programme="title1-targeted", engine="exact"), 3)
        print(f"discrete-laplace 10, title1-targeted {how}: {1e3 * took:.1f} ms")
    for name in ("basic", "concentration", "targeted"):
        clock, used = time.perf_counter(), time.process_time()
        fp.audit(x, fp.Laplace(10.0), "as-written", programme=f"title1-{name}", base_noise="same", engine="exact")
        clock, used = time.perf_counter() - clock, time.process_time() - used
        print(f"laplace 10 on counts and base, title1-{name}: {clock:.2f} s ({used:.2f} s of processor)")
    floors(x)
    states = fp.Counts(np.round(np.exp(np.random.default_rng(4).normal(15.2, 1.0, 50))))
    took = best(lambda: seat_changes(states, fp.Laplace(1000.0), 435, runs=20_000), 3)
    print(f"seats: 20,000 runs of 50 states in {took:.2f} s")


if __name__ == "__main__":
    main()
