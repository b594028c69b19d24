"""The base class of every request and answer of the API."""

from typing import Any, Self

import msgspec


class Schema(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A JSON object with exactly these members."""

    @classmethod
    def of(cls, record: Any, **others: Any) -> Self:
        """Build an object from the attributes of a record with the same names; `others` override them."""
        names = [name for name in cls.__struct_fields__ if name not in others]
        return cls(**{name: getattr(record, name) for name in names}, **others)


class IntervalOut(Schema):
    """A mean with its 95 % interval; null where there is too little data."""

    value: float | None
    low: float | None
    high: float | None
