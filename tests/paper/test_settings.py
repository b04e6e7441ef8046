from __future__ import annotations

import math
from typing import Any

import pytest

from flowratio import MAF, FlowFeaturizer
from flowratio_paper.settings import paper_featurizer


@pytest.mark.parametrize(
    ("dataset", "hidden", "epochs", "scaling"),
    [
        ("uci", (100, 100), 100, "standard"),
        ("toy", (100, 100), 100, "standard"),
        ("mi", (100, 100), 200, "standard"),
        ("mnist", (1024, 1024), 200, "image"),
        ("omniglot", (1024, 1024, 1024), 200, "image"),
    ],
)
def test_the_settings_are_those_of_the_paper(dataset: str, hidden: tuple[int, ...], epochs: int, scaling: str) -> None:
    featurizer = paper_featurizer(dataset, random_state=3, verbose=True)
    assert (featurizer.scaling, featurizer.random_state, featurizer.verbose) == (scaling, 3, True)
    recipe = featurizer.recipe_for(1000, 4)
    assert (recipe.max_epochs, recipe.batch_size, recipe.learning_rate, recipe.weight_decay) == (
        epochs,
        100,
        1e-4,
        1e-6,
    )
    assert (recipe.optimizer, recipe.schedule, recipe.patience) == ("adam", "constant", epochs)
    assert (recipe.warm_up, recipe.clip_norm, recipe.average, recipe.min_gain) == (0, math.inf, False, 0.0)
    new_maf: Any = featurizer.flow
    maf = new_maf(4)
    assert isinstance(maf, MAF)
    assert (maf.n_blocks, maf.hidden, maf.batch_norm, maf.max_log_scale) == (5, hidden, True, None)
    assert featurizer.dequantize is False


def test_single_settings_can_be_replaced() -> None:
    featurizer = paper_featurizer("toy").set_params(max_epochs=7, learning_rate=1e-3)
    recipe = featurizer.recipe_for(1000, 2)
    assert (recipe.max_epochs, recipe.learning_rate, recipe.optimizer) == (7, 1e-3, "adam")
    assert isinstance(featurizer, FlowFeaturizer)


def test_an_unknown_data_set_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`dataset` is 'cifar'\. Use one of uci, toy, mi, mnist, omniglot"):
        paper_featurizer("cifar")
