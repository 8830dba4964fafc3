"""Ids that count, so that a test that runs again makes the same ids."""


class CountingIds:
    """Bits from the numbers 1, 2, 3 and so on."""

    def __init__(self) -> None:
        self._count = 0

    def bits(self) -> int:
        self._count += 1
        return self._count
