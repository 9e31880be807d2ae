"""Names for the NumPy arrays that the modules of this package exchange."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
"""Ids, times, prices, lengths and positions."""

WordArray: TypeAlias = npt.NDArray[np.uint64]
"""Random words; arithmetic on them wraps modulo 2^64."""

FloatArray: TypeAlias = npt.NDArray[np.float64]

ByteArray: TypeAlias = npt.NDArray[np.uint8]
"""Text as ASCII bytes."""

BoolArray: TypeAlias = npt.NDArray[np.bool_]

VoidArray: TypeAlias = npt.NDArray[np.void]
"""Fixed-width byte strings, copied by NumPy without looking inside."""
