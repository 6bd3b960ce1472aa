"""Runs of consecutive numbers: messages of a run are read, summed and sent together."""

from collections.abc import Iterator, Sequence


def runs(seqs: Sequence[int], start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """The first and last number of each run of consecutive numbers in ``seqs[start:end]``, which is ascending.

    >>> list(runs([3, 4, 5, 8, 10, 11]))
    [(3, 5), (8, 8), (10, 11)]
    """
    end = len(seqs) if end is None else end
    while start < end:
        stop = end
        while seqs[stop - 1] - seqs[start] != stop - 1 - start:
            stop = next(i for i in range(start + 1, stop) if seqs[i] != seqs[i - 1] + 1)
        yield seqs[start], seqs[stop - 1]
        start = stop
