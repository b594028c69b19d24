"""Items, clients and boards as numbers."""

from typing import Any

import numpy as np
import polars as pl

from .looks import ItemNumbers


class Names:
    """Values and their numbers, in order of first sight."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers = pl.DataFrame({"value": [], "number": []}, schema={"value": pl.Null, "number": pl.Int32})

    def numbers(self, values: pl.Series) -> ItemNumbers:
        """The number of each value, new ones given out as they come; -1 for null."""
        if self.values and values.dtype != self._numbers["value"].dtype:
            values = self._alike(values)
        known = values.unique(maintain_order=True).drop_nulls()
        if self.values:
            known = known.filter(~known.is_in(self._numbers["value"].implode()))
        if len(known):
            fresh = pl.DataFrame({"value": known, "number": range(len(self.values), len(self.values) + len(known))})
            fresh = fresh.with_columns(pl.col("number").cast(pl.Int32))
            self._numbers = fresh if not self.values else self._numbers.vstack(fresh)
            self.values += known.to_list()
        if not self.values:
            return np.full(len(values), -1, np.int32)
        joined = values.alias("value").to_frame().join(self._numbers, on="value", how="left", maintain_order="left")
        return joined["number"].fill_null(-1).to_numpy().astype(np.int32, copy=False)

    def _alike(self, values: pl.Series) -> pl.Series:
        """Values of the kind that came first."""
        kind = self._numbers["value"].dtype
        alike = values.cast(kind, strict=False)
        lost = values.filter(~alike.cast(values.dtype, strict=False).eq_missing(values))
        if len(lost):
            raise ValueError(
                f"column {values.name} holds {kind} at first, such as {self.values[0]!r}, and {values.dtype} later, "
                f"such as {lost[0]!r}"
            )
        return alike
