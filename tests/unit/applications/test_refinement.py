"""Two-stage sampling where flow and ratios are known exactly: the ratio in x decides what is drawn."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.special import logit
from sklearn.exceptions import NotFittedError

from flowratio import (
    ClassifierRatio,
    DepletedWarning,
    FeaturizedRatio,
    Flow,
    FlowFeaturizer,
    TargetedSampler,
    effective_sample_size,
    pareto_smooth,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning"),
]
SHIFT, SCALE = np.array([10.0, -3.0]), np.array([2.0, 0.5])


class MixtureFlow(Flow):
    """x = SHIFT + SCALE z, and z comes from p = N((1, 1), I) with this probability, or from q = N((-1, -1), I)."""

    def __init__(self, proportion: float = 0.5) -> None:
        super().__init__(2)
        self.proportion = proportion
        self.n_decoded = 0
        self.register_buffer("kind", torch.zeros(1, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x - torch.tensor(SHIFT)) / torch.tensor(SCALE), x.new_full((len(x),), -math.log(SCALE.prod()))

    def inverse(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.n_decoded += len(z)
        return torch.tensor(SHIFT) + torch.tensor(SCALE) * z, z.new_full((len(z),), -math.log(SCALE.prod()))

    def base_sample(self, n: int, generator: torch.Generator | None = None) -> torch.Tensor:
        is_p = torch.rand(n, 1, generator=generator, dtype=torch.float64) < self.proportion
        return torch.randn(n, 2, generator=generator, dtype=torch.float64) + torch.where(is_p, 1.0, -1.0)


class InX:
    """log r of x, exact: 2 (z₁ + z₂)."""

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        return 2 * ((X - SHIFT) / SCALE).sum(axis=1)


class InZ:
    """log r of z, exact, or multiplied by a factor: 0 is uninformative, and -1 has the wrong direction."""

    def __init__(self, proportion: float = 0.5, factor: float = 1.0) -> None:
        self.log_odds_, self.factor = logit(proportion), factor

    def log_ratio(self, Z: np.ndarray) -> np.ndarray:
        return self.factor * 2 * Z.sum(axis=1)


def known_flow(proportion: float = 0.5) -> FlowFeaturizer:
    return FlowFeaturizer(MixtureFlow(proportion)).fit(np.random.default_rng(0).normal(size=(10, 2)))


def two_stage(share: float = 0.5, factor: float = 1.0, **changed: Any) -> TargetedSampler:
    """Return a sampler with a flow that draws this share of p."""
    settings = {"ratio": InZ(share, factor), "featurizer": known_flow(share), "refine": InX()}
    return TargetedSampler(**{**settings, "random_state": 0, **changed})


def samples(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return SHIFT + SCALE * (rng.normal(size=(n, 2)) + 1), SHIFT + SCALE * (rng.normal(size=(n, 2)) - 1)


def standard(X: np.ndarray, toward: str) -> np.ndarray:
    """Return rows in units of the target, in which it is a standard Gaussian."""
    return (X - SHIFT) / SCALE - {"p": 1.0, "q": -1.0}[toward]


class TestDrawsAreOfTheTarget:
    @pytest.mark.parametrize("factor", [1.0, 0.0, -1.0])
    @pytest.mark.parametrize("proportion", [0.1, 0.5, 0.8])
    @pytest.mark.parametrize("toward", ["p", "q"])
    def test_moments_are_those_of_the_target_whatever_the_first_stage_is(
        self, toward: Any, proportion: float, factor: float
    ) -> None:
        n = 2000
        drawn = two_stage(proportion, factor).draw(n, toward)
        z = standard(drawn.X, toward)
        # variance of a mean of n rows that were drawn from m effective candidates: 1/n + 1/m. Five standard errors
        error = math.sqrt(1 / n + 1 / drawn.effective_sample_size)
        assert np.abs(z.mean(axis=0)).max() < 5 * error
        assert np.abs((z**2).mean(axis=0) - 1).max() < 5 * math.sqrt(2) * error
        assert abs((z[:, 0] * z[:, 1]).mean()) < 5 * error
        # such a test can fail: the other sample is 2 away in each column
        assert 5 * error < 1

    @pytest.mark.parametrize("toward", ["p", "q"])
    def test_a_wrong_ratio_in_z_alone_draws_other_rows(self, toward: Any) -> None:
        z = standard(two_stage(0.5, -1.0, refine=None).sample(2000, toward), toward)
        assert np.abs(z.mean(axis=0)).min() > 1.5

    @pytest.mark.parametrize("factor", [1.0, 0.5])
    @pytest.mark.parametrize("proportion", [0.1, 0.5])
    def test_weights_of_the_decoded_add_up_to_the_number_of_candidates(self, proportion: float, factor: float) -> None:
        # the mean of p/h over candidates of h is 1
        drawn = two_stage(proportion, factor).draw(2000, "p")
        assert drawn.log_w.shape == (10_000,)
        error = 1 / math.sqrt(drawn.effective_sample_size) + 1 / math.sqrt(proportion * 200_000)
        assert np.exp(drawn.log_w).sum() / 200_000 == pytest.approx(1, abs=5 * error)

    def test_rows_are_drawn_by_the_weights_that_are_returned(self) -> None:
        drawn = two_stage(0.3, 0.5).draw(500, "q")
        assert drawn.effective_sample_size == effective_sample_size(drawn.log_w)
        assert drawn.k_hat == pareto_smooth(drawn.log_w).k_hat
        assert len(np.unique(drawn.Z, axis=0)) == round(500 * drawn.unique_share)
        np.testing.assert_allclose(drawn.X, SHIFT + SCALE * drawn.Z, rtol=1e-12)

    def test_with_all_candidates_decoded_the_weights_are_those_of_x(self) -> None:
        for n_decoded in (20, 50):
            drawn = two_stage(0.3, -1.0, n_candidates=20, n_decoded=n_decoded).draw(100, "p")
            of_x = two_stage(0.3, ratio=InX(), refine=None, space="x", proportion=0.3, n_candidates=20).draw(100, "p")
            np.testing.assert_allclose(drawn.log_w, of_x.log_w, rtol=1e-12)
            np.testing.assert_allclose(drawn.X, of_x.X, rtol=1e-12)
            assert drawn.effective_sample_size == pytest.approx(of_x.effective_sample_size)

    def test_a_better_first_stage_has_more_effective_candidates(self) -> None:
        sizes = [two_stage(0.1, factor).draw(1000, "p").effective_sample_size for factor in (1.0, 0.0, -1.0)]
        assert sizes == sorted(sizes, reverse=True)
        # of 5000 decoded rows, a fifth has equal chances. Without a first stage, a tenth of all rows are of the target
        assert sizes[0] > 2500 > 1000 > sizes[1]

    def test_weights_of_zero_in_the_first_stage_are_corrected(self) -> None:
        class Blind(InZ):
            def log_ratio(self, Z: np.ndarray) -> np.ndarray:
                return np.where(Z[:, 0] > 1, -np.inf, super().log_ratio(Z))

        drawn = two_stage(ratio=Blind()).draw(4000, "p")
        z = standard(drawn.X, "p")
        # one half of p has z₁ > 1
        share = np.mean(z[:, 0] > 0)
        assert share == pytest.approx(0.5, abs=5 * math.sqrt(0.25 * (1 / 4000 + 1 / drawn.effective_sample_size)))

    def test_a_ratio_to_the_draws(self) -> None:
        # proportion = 0: the ratios are p to what the flow draws, 20 % p
        class ToDraws:
            def __init__(self, in_x: bool) -> None:
                self.in_x = in_x

            def log_ratio(self, X: np.ndarray) -> np.ndarray:
                log_r = InX().log_ratio(X) if self.in_x else np.zeros(len(X))
                return -np.logaddexp(math.log(0.2), math.log(0.8) - log_r)

        drawn = two_stage(0.2, ratio=ToDraws(False), refine=ToDraws(True), proportion=0).draw(2000, "p")
        error = math.sqrt(1 / 2000 + 1 / drawn.effective_sample_size)
        assert np.abs(standard(drawn.X, "p").mean(axis=0)).max() < 5 * error


class TestCost:
    @pytest.mark.parametrize(("settings", "n_each"), [({}, 5), ({"n_decoded": 3}, 3), ({"n_candidates": 2}, 2)])
    def test_only_the_candidates_of_the_second_stage_are_decoded(self, settings: dict[str, int], n_each: int) -> None:
        sampler: Any = two_stage(**settings)
        drawn = sampler.draw(300, "p")
        assert sampler.featurizer.flow_.n_decoded == 300 * n_each == len(drawn.log_w)

    def test_the_mixture_needs_no_second_stage(self) -> None:
        sampler: Any = two_stage()
        assert sampler.draw(300, None).X.shape == (300, 2)
        assert sampler.featurizer.flow_.n_decoded == 300

    def test_the_same_seed_draws_the_same_rows(self) -> None:
        np.testing.assert_array_equal(two_stage().sample(50), two_stage().sample(50))
        assert not np.array_equal(two_stage().sample(50), two_stage(random_state=1).sample(50))


class TestWithoutReplacement:
    def test_no_row_comes_twice(self) -> None:
        drawn = two_stage(replace=False).draw(500, "p")
        assert len(np.unique(drawn.X, axis=0)) == 500
        assert len(drawn.log_w) == 500 * 25
        error = math.sqrt(1 / 500 + 1 / drawn.effective_sample_size)
        assert np.abs(standard(drawn.X, "p").mean(axis=0)).max() < 5 * error

    def test_the_warning_names_the_argument_that_helps(self) -> None:
        with pytest.warns(DepletedWarning, match="500 rows were drawn without replacement") as caught:
            two_stage(replace=False, n_decoded=3).sample(500, "p")
        assert caught[0].filename == __file__
        match = re.search(r"`n_decoded` of (\d+) or more", str(caught[0].message))
        assert match is not None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            two_stage(replace=False, n_decoded=int(1.2 * int(match.group(1)))).sample(500, "p")


class TestRealRows:
    def test_the_result_has_a_check_against_real_rows(self) -> None:
        X_p, X_q = samples(600)
        right, wrong = two_stage().draw(600, "p", X_target=X_p), two_stage().draw(600, "q", X_target=X_p)
        assert right.check is not None
        assert wrong.check is not None
        assert str(right.check.verdict) == "reliable"
        assert str(wrong.check.verdict) == "do not use"
        assert len(right.check.log_draws) == 600
        assert len(right.check.log_target) == len(X_q)

    def test_without_real_rows_there_is_no_check(self) -> None:
        assert two_stage().draw(20).check is None


class TestRatiosThatAreFitted:
    def test_a_featurized_ratio_and_a_ratio_in_x(self) -> None:
        X_p, X_q = (pd.DataFrame(X, columns=["a", "b"]) for X in samples())
        flow = FlowFeaturizer(n_blocks=1, hidden=(8,), max_epochs=3, random_state=0)
        ratio = FeaturizedRatio("logistic", featurizer=flow, random_state=0).fit_samples(X_p, X_q)
        of_x = ClassifierRatio("logistic").fit_samples(X_p, X_q)
        drawn = TargetedSampler(ratio, refine=of_x, n_candidates=20, n_decoded=20, random_state=0).draw(50, "q")
        flow_of_ratio: Any = ratio.featurizer_
        in_x = TargetedSampler(of_x, flow_of_ratio, space="x", n_candidates=20, random_state=0).draw(50, "q")
        np.testing.assert_allclose(drawn.log_w, in_x.log_w, rtol=1e-9)


class TestBadInput:
    @pytest.mark.parametrize("refine", [True, "mlp", ClassifierRatio, 3])
    def test_what_is_no_ratio(self, refine: Any) -> None:
        with pytest.raises(TypeError, match=r"`refine` is .*\. Give a fitted ratio p/q of rows of x, such as"):
            two_stage(refine=refine).sample(5)

    def test_what_is_not_fitted(self) -> None:
        with pytest.raises(NotFittedError):
            two_stage(refine=ClassifierRatio("logistic")).sample(5)

    def test_the_ratio_of_the_first_stage(self) -> None:
        ratio = InZ()
        with pytest.raises(ValueError, match=r"`refine` is the ratio of the first stage.* Fit another ratio"):
            two_stage(ratio=ratio, refine=ratio).sample(5)
        flow = FlowFeaturizer(n_blocks=1, hidden=(8,), max_epochs=1, random_state=0)
        featurized = FeaturizedRatio("logistic", featurizer=flow, random_state=0).fit_samples(*samples())
        for refine in (featurized, featurized.ratio_):
            with pytest.raises(ValueError, match="`refine` is the ratio of the first stage"):
                TargetedSampler(featurized, refine=refine).sample(5)

    def test_a_ratio_of_codes(self) -> None:
        Z_p, Z_q = ((X - SHIFT) / SCALE / 20 for X in samples())  # x = 10, -3 is far from these
        of_codes = ClassifierRatio("logistic").fit_samples(Z_p, Z_q)
        with pytest.raises(ValueError, match=r"`refine` was fitted to other values: .* Fit it to rows of x, not"):
            two_stage(refine=of_codes).sample(50)

    def test_a_ratio_of_other_columns(self) -> None:
        rng = np.random.default_rng(0)
        of_three = ClassifierRatio("logistic").fit_samples(rng.normal(size=(20, 3)), rng.normal(size=(20, 3)))
        with pytest.raises(ValueError, match="`refine` was fitted to 3 columns, but x of `featurizer` has 2"):
            two_stage(refine=of_three).sample(5)

    def test_an_inverse_ratio(self) -> None:
        of_x = ClassifierRatio("boosting").fit_samples(*samples())
        with pytest.raises(TypeError, match=r"`refine` is .* which is q/p"):
            two_stage(refine=of_x.inverse()).sample(5)
        assert two_stage(refine=of_x).sample(5).shape == (5, 2)

    def test_candidates_that_are_decoded_already(self) -> None:
        with pytest.raises(ValueError, match=r"`refine` is set, but candidates with `space='x'` are all decoded"):
            two_stage(space="x").sample(5)
        X_p, X_q = samples()
        tables = [pl.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > -3, "u", "v")}) for X in (X_p, X_q)]
        flow = FlowFeaturizer(n_blocks=1, hidden=(4,), max_epochs=1, random_state=0)
        of_tables = FeaturizedRatio("logistic", featurizer=flow, random_state=0).fit_samples(*tables)
        with pytest.raises(ValueError, match=r"but rows of a table are all decoded and weighted in x already\. Leave"):
            TargetedSampler(of_tables, refine=InX()).sample(5)
        of_x: Any = ClassifierRatio("logistic").fit_samples(*tables)
        with pytest.raises(ValueError, match="`refine` was fitted to a mixed table"):
            two_stage(refine=of_x).sample(5)

    def test_values_that_are_no_numbers(self) -> None:
        class Unsound(InX):
            def log_ratio(self, X: np.ndarray) -> np.ndarray:
                return np.full(len(X), math.nan)

        with pytest.raises(ValueError, match=r"`log_ratio` of .*Unsound.* returned \(25,\) values for 25 rows, 25 of"):
            two_stage(refine=Unsound()).sample(5)

    def test_number_of_decoded_candidates(self) -> None:
        with pytest.raises(ValueError, match=r"`n_decoded` is 0\. Use an integer"):
            two_stage(n_decoded=0).sample(5)
