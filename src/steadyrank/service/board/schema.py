"""What every request and answer of the API is made of."""

from typing import Any, Self

import msgspec


class Schema(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A JSON object with these members and no others."""

    @classmethod
    def of(cls, record: Any, **others: Any) -> Self:
        """An object with what a record has under the names of its members, and with `others` in place of these."""
        names = [name for name in cls.__struct_fields__ if name not in others]
        return cls(**{name: getattr(record, name) for name in names}, **others)


class IntervalOut(Schema):
    """A mean with its 95 % interval; null where there is too little."""

    value: float | None
    low: float | None
    high: float | None
