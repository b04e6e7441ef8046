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

    TableLike: TypeAlias = np.ndarray | pd.DataFrame | pl.DataFrame | pa.Table | Sequence[Sequence[Any]]
    VectorLike: TypeAlias = np.ndarray | pd.Series | pl.Series | Sequence[Any]
else:
    TableLike = VectorLike = Any  # rows, of shape (n, d), and one value for each row, of shape (n,)

PathLike: TypeAlias = str | os.PathLike[str]
Matrix: TypeAlias = np.ndarray  # (n, d)
Vector: TypeAlias = np.ndarray  # (n,)
