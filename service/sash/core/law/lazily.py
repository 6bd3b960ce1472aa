"""An attribute that is made when it is first read."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - it reads like property
    """As ``functools.cached_property``, without its lock, which takes longer than most of what a comparison reads."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, instance: None, owner: Any) -> "lazy[T]": ...

    @overload
    def __get__(self, instance: object, owner: Any) -> T: ...

    def __get__(self, instance: object, owner: Any) -> "T | lazy[T]":
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._make(instance)
        return value
