"""Questions about releases and the truth: check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from msgspec import structs

from fairpost.check import check as checked
from fairpost.counts import Counts
from fairpost.errors import InputError, ParameterError
from fairpost.io import Rows, read_counts, read_rows
from fairpost.noise import Law
from fairpost.results import Check
from fairpost.study import parts as of
from fairpost.study.study import Given, Progress, Say, Study, silent

if TYPE_CHECKING:
    from fairpost.release.statement import Stated

LEVEL = "level"
"""The column of a release of levels that says of which one a row is."""


@dataclass(frozen=True, eq=False)
class LoadedReleases:
    """True counts, the rows of each release, and the noise that they are said to have."""

    counts: Counts
    rows: tuple[Rows, ...]
    mechanism: Law | None


class CheckStudy(Study, frozen=True, kw_only=True, tag_field="command", tag="check"):
    """Released counts against the true ones."""

    answer: ClassVar[str] = "found"
    data: of.Compared = of.Compared()
    reading: of.Reading = of.Reading()
    noise: of.StatedNoises = of.StatedNoises()
    intervals: of.Intervals = of.Intervals()
    output: of.Output = of.Output()
    words: of.Words = of.Words()

    def load(self, say: Say | None = None) -> LoadedReleases:
        """The true counts and the releases; with statements the noise is theirs."""
        stated = self._stated()
        keep = () if stated is None or stated.levels is None else (LEVEL,)
        mechanism = self.noise.maybe
        counts = read_counts(self.data.true, **self.columns, label=self.data.label, say=say)
        rows = tuple(self._released(path, keep, say) for path in self.data.released)
        if stated is not None:
            known = set(counts.ids)
            rows = tuple(replace(one, ids=_as_published(one.ids, known)) for one in rows) if stated.safe else rows
            mechanism = self._noise_of(stated, rows)
        return LoadedReleases(counts, rows, mechanism)

    def find(self, loaded: LoadedReleases, progress: Progress = silent) -> Check:
        """`fp.check`."""
        names, confidence = self.data.released, self.intervals.confidence
        return checked(loaded.counts, loaded.rows, loaded.mechanism, names=names, confidence=confidence)

    def _stated(self) -> Stated | None:
        """What the statements say of the noise, all of them the same; each RELEASED must be the table of its own, byte by byte."""
        paths, released = self.noise.statements, self.data.released
        if not paths:
            return None
        from fairpost.release.chain import digest_of
        from fairpost.release.statement import stated

        self.noise.refuse_beside("statements")
        if len(paths) != len(released):
            raise ParameterError(
                f"`statements` must be given once for each RELEASED, in their order, got {len(paths)} for {len(released)}"
            )
        found = [stated(path) for path in paths]
        for path, file, one in zip(paths, released, found, strict=True):
            if digest_of(Path(file)) != one.table_sha256:
                raise InputError(
                    f"{file}: must be the table of {path}, byte by byte, and is another or was changed; take the file as it was "
                    f"published (for one that was only saved anew, state the noise: --mechanism {one.mechanism} --{one.parameter})"
                )
            if (one.mechanism, one.scales) != (found[0].mechanism, found[0].scales):
                raise InputError(
                    f"{path}: the releases of one check must have the same noise, got other noise than in {paths[0]}"
                )
        return found[0]

    def _noise_of(self, stated: Stated, rows: Sequence[Rows]) -> Law:
        """The noise that a statement gives; of a release of levels that of the one level whose rows are checked."""
        scale = stated.scale
        if stated.levels is not None:
            there = list(dict.fromkeys(label for one in rows for label in one.kept[LEVEL]))
            if len(there) != 1:
                names = ", ".join(stated.scales)
                raise InputError(
                    f'one level is checked at a time, with --released-where "{LEVEL} = NAME" (of {names}), got {len(there)}'
                )
            if there[0] not in stated.scales:
                raise InputError(
                    f"level {there[0]!r} was released without noise, so no statement explains differences in it"
                )
            scale = stated.scales[there[0]]
        amount: Given = {"mechanism": stated.mechanism, stated.parameter: scale}
        return structs.replace(self.noise, **amount).law

    def _released(self, path: str, keep: Sequence[str], say: Say | None) -> Rows:
        """The rows of a release: its columns are named as in TRUE, or as a release names them."""
        data, first = self.data, None
        for id, count in self._columns_of_a_release():
            said: list[str] = []
            how: Given = {"decimal": self.reading.decimal, "where": data.released_where}
            try:
                found = read_rows(path, id=id, count=count, keep=keep, say=said.append, **how)
            except InputError as error:
                first = first or error
                continue
            for line in said if say is not None else ():
                say(line)  # type: ignore[misc]
            return found
        assert first is not None
        raise first

    def _columns_of_a_release(self) -> Iterator[tuple[str, str]]:
        data = self.data
        ids = [data.released_id] if data.released_id else [data.id or "id", "id"]
        counts = [data.released_count] if data.released_count else [data.count or "count", "count"]
        yield from dict.fromkeys(product(ids, counts))


def _as_published(ids: Sequence[str], known: set[str]) -> tuple[str, ...]:
    """The ids of a table made with --csv-safe, without the ' that was put before some."""
    return tuple(one[1:] if one not in known and one.startswith("'") and one[1:] in known else one for one in ids)
