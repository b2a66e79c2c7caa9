"""How large the experiments are: the paper's settings, and smaller ones for a quick look."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Settings:
    """The paper's, unless said otherwise. Times are medians of so many runs; the paper has means of 100."""

    thetas: tuple[int, ...] = (2, 4, 8, 16, 32)
    rows: int = 300_000  # for everything but the runtimes
    sizes: tuple[int, ...] = (100_000, 200_000, 300_000, 400_000, 500_000)
    gammas: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    queries: int = 5_000
    runs_of_ours: int = 20
    runs_of_searches: int = 3
    limit: float = 60.0  # seconds, for the integer program and for the proof of the exact optimum
    draws: int = 100_000
    quick: bool = False

    @property
    def most_rows(self) -> int:
        """How many rows the experiments can use."""
        return max(self.rows, *self.sizes)

    def within(self, rows: int) -> Settings:
        """The same for a table that has only so many rows."""
        if rows >= self.most_rows:
            return self
        most = self.sizes[-1]
        return replace(self, rows=min(self.rows, rows), sizes=tuple(max(1, size * rows // most) for size in self.sizes))


FULL = Settings()


QUICK = Settings(
    thetas=(2, 8, 32),
    rows=15_000,
    sizes=(10_000, 30_000),
    gammas=(2, 16),
    queries=500,
    runs_of_ours=5,
    runs_of_searches=1,
    limit=2.0,
    draws=20_000,
    quick=True,
)
