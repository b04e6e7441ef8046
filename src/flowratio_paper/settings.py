"""The flow of Choi et al. (2021), as their Appendix D describes it, by the public arguments of the library."""

from __future__ import annotations

import math
from functools import partial

from flowratio import MAF, FlowFeaturizer, Recipe

# by data set: hidden layers of a block, epochs, scaling. "n_hidden 1" in the paper's table is two hidden layers in its
# text and code
_FLOWS: dict[str, tuple[tuple[int, ...], int, str]] = {
    "uci": ((100, 100), 100, "standard"),
    "toy": ((100, 100), 100, "standard"),
    "mi": ((100, 100), 200, "standard"),
    "mnist": ((1024, 1024), 200, "image"),
    "omniglot": ((1024, 1024, 1024), 200, "image"),
}
N_BLOCKS = 5


def paper_recipe(max_epochs: int, tolerance: float = 0.01) -> Recipe:
    """Return the paper's training: Adam at a constant rate for all epochs, without warm-up, clipping or averaging."""
    return Recipe(
        max_epochs,
        batch_size=100,
        learning_rate=1e-4,
        weight_decay=1e-6,
        optimizer="adam",
        schedule="constant",
        patience=max_epochs,
        warm_up=0,
        clip_norm=math.inf,
        average=False,
        tolerance=tolerance,
    )


def paper_featurizer(dataset: str, random_state: int | None = None, verbose: bool = False) -> FlowFeaturizer:
    """Return the featurizer of the paper, not yet fitted: a MAF of 5 blocks with batch norm.

    Parameters
    ----------
    dataset
        The row of the paper's table: `"uci"` (also the synthetic mixtures), `"toy"`, `"mi"`, `"mnist"` or `"omniglot"`.
    random_state, verbose
        As in `FlowFeaturizer`.
    """
    if dataset not in _FLOWS:
        raise ValueError(f"`dataset` is {dataset!r}. Use one of {', '.join(_FLOWS)}.")
    hidden, max_epochs, scaling = _FLOWS[dataset]
    return FlowFeaturizer(
        partial(MAF, n_blocks=N_BLOCKS, hidden=hidden, batch_norm=True, max_log_scale=None),
        scaling=scaling,
        dequantize=False,
        recipe=paper_recipe(max_epochs, 1.96 if scaling == "image" else 0.01),  # of the log-density, for a warning
        random_state=random_state,
        verbose=verbose,
    )
