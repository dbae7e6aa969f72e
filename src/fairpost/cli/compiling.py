"""`fairpost compile`: every kernel at once, so that later commands load them; and what other commands say of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from fairpost.cli import screen
from fairpost.compiled import told

PATIENCE, EVERY = 1.0, 2.0
"""Seconds of compiling before a command says so, and between two lines of progress on a terminal."""


@click.command("compile")
def compile_() -> int:
    """Compile every kernel and keep the machine code, so that no later command waits for it.

    The kernels lie in the user's cache folder, or in the folder that FAIRPOST_CACHE names. It takes some minutes of one
    processor core, once for each version of fairpost, Numba and Python and for each processor.

    \b
    Example: once, after an installation
      fairpost compile
    """
    from fairpost.cli import warming

    start, compiled, asked = time.perf_counter(), list[str](), warming.questions()
    with screen.progress("compiling kernels") as report, told(lambda name: compiled.extend(_ours(name))):
        for done, (label, ask) in enumerate(asked):
            report(done, len(asked), label)
            ask()
    seconds = time.perf_counter() - start
    click.echo(
        f"Compiled {len(compiled)} kernels in {seconds:.1f} s." if compiled else "Every kernel was compiled before."
    )
    return 0


def _ours(name: str | None) -> list[str]:
    """Numba compiles functions of its own on the way."""
    return [name] if name is not None and name.startswith("fairpost.") else []


@contextmanager
def said() -> Iterator[None]:
    """Say on stderr that kernels compile, once it takes a while, and how far it is."""
    begun = last = 0.0
    names: list[str] = []

    def listener(name: str | None) -> None:
        nonlocal begun, last
        now = time.perf_counter()
        begun = begun or now
        if now - begun > PATIENCE and last == 0.0:
            click.echo("compiling kernels (first use on this machine) ...", err=True)
            last = now
        elif last and now - last > EVERY and sys.stderr.isatty():
            click.echo(f"compiling kernels: {len(names)} so far, {names[-1].rpartition('.')[2]}", err=True)
            last = now
        names.extend(_ours(name))

    with told(listener):
        yield
