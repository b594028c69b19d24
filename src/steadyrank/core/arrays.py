"""Array types of records."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Counts: TypeAlias = npt.NDArray[np.int32]  # half the memory, for counts that stay below 2^31
Bools: TypeAlias = npt.NDArray[np.bool_]
Small: TypeAlias = npt.NDArray[np.int16]  # a quarter, for counts that stay below 2^15
