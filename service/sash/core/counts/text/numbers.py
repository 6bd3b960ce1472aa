"""Arithmetic that is the same for the numbers of one message and for arrays with those of many.

A rule about tokens is written once, for a ``Number``, and gets one of two ways to compute: ``ONE`` or ``MANY``.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

Number = Any
"""A number, or an array with one for each message."""


class Arithmetic(msgspec.Struct, frozen=True):
    """The operations that Python writes in another way for one number than for many."""

    where: Callable[[Number, Number, Number], Number]
    """The second where the first is true, else the third."""
    most: Callable[[Number, Number], Number]
    least: Callable[[Number, Number], Number]
    ceil: Callable[[Number], Number]
    floor: Callable[[Number], Number]
    some: Callable[[Number], bool]
    """Whether it is true of one message at least."""
    pick: Callable[[Sequence[float], Number], Number]
    """The items of a table at these places."""


ONE: Final = Arithmetic(
    where=lambda condition, one, other: one if condition else other,
    most=max,
    least=min,
    ceil=math.ceil,
    floor=math.floor,
    some=bool,
    pick=lambda table, place: table[place],
)
MANY: Final = Arithmetic(
    where=np.where, most=np.maximum, least=np.minimum, ceil=np.ceil, floor=np.floor, some=np.any, pick=np.take
)
