"""Settings of a flow and of its training, chosen from the number of rows n and columns d.

The values were chosen on synthetic densities and small real tables (200 to 160 000 rows, 1 to 40 columns).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowratio.training.run import Recipe

_STEPS = 3000  # of the optimizer, in a run of default length


def hidden_widths(n: int, d: int) -> tuple[int, int]:
    """Return the widths of two hidden layers, wide enough that every coordinate has its own units."""
    width = max(32, math.ceil(1.25 * d)) if n < 1_000 else max(64, 2 ** math.ceil(math.log2(2 * d)))
    return min(width, 1024), min(width, 1024)


def default_recipe(n: int, d: int, hidden: Sequence[int] | None, settings: Mapping[str, Any]) -> Recipe:
    """Return the recipe for n rows and d columns. `settings` are the values of the user, `hidden` may be None."""
    batch_size = settings.get("batch_size", int(min(max(2 ** round(math.log2(n / 150)), 64), 1024)))
    max_epochs = settings.get("max_epochs", int(min(max(math.ceil(_STEPS * batch_size / n), 3), 400)))
    # the noise of Adam allows a rate that grows with the root of the batch size, and wide layers need a lower rate
    width = max(hidden or hidden_widths(n, d))
    learning_rate = 5e-3 * min(math.sqrt(batch_size / 256), 2.0) * min(1.0, math.sqrt(256 / width))
    recipe = Recipe(
        max_epochs,
        batch_size,
        learning_rate,
        weight_decay=min(1.0, 5_000 / n),  # on small tables early stopping alone overfits
        patience=min(max_epochs, max(5, max_epochs // 10)),
        min_gain=0.001,
        tolerance=0.01 * max(1.0, d / 4),
    )
    return replace(recipe, **settings)
