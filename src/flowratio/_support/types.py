"""Names for the types of arguments."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    VectorLike: TypeAlias = np.ndarray | pd.Series | pl.Series | pa.Array | pa.ChunkedArray | Sequence[Any]
    TableLike: TypeAlias = pd.DataFrame | pl.DataFrame | pa.Table | VectorLike
else:
    # rows, of shape (n, d), or (n,) where one column is accepted, and one value for each row, of shape (n,)
    TableLike = VectorLike = Any

PathLike: TypeAlias = str | os.PathLike[str]
Matrix: TypeAlias = np.ndarray  # (n, d)
Vector: TypeAlias = np.ndarray  # (n,)
