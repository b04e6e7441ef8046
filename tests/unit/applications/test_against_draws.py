"""The ratio of a sample to draws of a flow, where both distributions are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.integrate import quad
from scipy.special import log_expit
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

from flowratio import (
    MLP,
    AgainstDraws,
    ClassifierRatio,
    FeaturizedRatio,
    Flow,
    FlowFeaturizer,
    Recipe,
    TargetedSampler,
)
from flowratio import against_draws as fit_against_draws
from flowratio.applications import against_draws
from flowratio.applications.against_draws import _codes, _n_versions, _samples
from flowratio.applications.label_ratios import LabelRatios

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning"),
]


class Doubled(Flow):
    """x = 2 z, with z from a standard Gaussian. It counts the rows that it decodes."""

    def __init__(self) -> None:
        super().__init__(2)
        self.n_decoded = 0
        self.register_buffer("kind", torch.zeros(1, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x / 2, x.new_full((len(x),), -2 * math.log(2))

    def inverse(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.n_decoded += len(z)
        return 2 * z, z.new_full((len(z),), -2 * math.log(2))


class WithSpecks(Doubled):
    """p = N((1, 1), I) and q = N((-1, -1), I), three of eight each, and a quarter of specks around (9, -9)."""

    def base_sample(self, n: int, generator: torch.Generator | None = None) -> torch.Tensor:
        u = torch.rand(n, 1, generator=generator, dtype=torch.float64)
        speck = torch.tensor([9.0, -9.0], dtype=torch.float64)
        center = torch.where(u < 0.25, speck, torch.where(u < 0.625, 1.0, -1.0))
        return center + torch.randn(n, 2, generator=generator, dtype=torch.float64)


class OfCodes:
    """log p/q of codes, exact: 2 (z₁ + z₂)."""

    log_odds_ = 0.0

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        return 2 * X.sum(axis=1)


class OfRows(OfCodes):
    """The same of rows x."""

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        return super().log_ratio(X / 2)


class ToSpecks:
    """log h/g, exact up to the overlap of h and specks: 4/3 for rows of h, 0 for specks."""

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        return np.where(X[:, 0] - X[:, 1] < 9 * self.scale, math.log(4 / 3), -50.0)


def known(flow: Flow) -> FlowFeaturizer:
    return FlowFeaturizer(flow).fit(np.random.default_rng(0).normal(size=(10, 2)))


def rows(n: int, shift: float = 0.5, seed: int = 1) -> np.ndarray:
    """Return rows x = 2 z with z from N((shift, 0), I)."""
    return 2 * (np.random.default_rng(seed).normal(size=(n, 2)) + np.array([shift, 0.0]))


def exact_score(shift: float) -> float:
    """Return the score of the exact ratio of N(shift, 1) to N(0, 1)."""
    log_r = lambda z: shift * z - shift**2 / 2  # noqa: E731
    of_rows = quad(lambda z: norm.pdf(z - shift) * log_expit(log_r(z)), -12, 12)[0]
    of_draws = quad(lambda z: norm.pdf(z) * log_expit(-log_r(z)), -12, 12)[0]
    return math.log(2) + (of_rows + of_draws) / 2


class TestTheRatio:
    @pytest.mark.parametrize("space", ["z", "x"])
    def test_log_ratio_and_score_are_those_of_two_gaussians(self, space: Any) -> None:
        fitted = fit_against_draws(known(Doubled()), rows(8000), ratio="logistic", space=space, random_state=0)
        Z = np.random.default_rng(2).normal(size=(1000, 2))
        truth = 0.5 * Z[:, 0] - 0.125
        # three coefficients of a logistic fit to 7200 rows and as many draws, each with an error near 2/sqrt(14 400)
        error = fitted.log_ratio(Z if space == "z" else 2 * Z) - truth
        assert np.sqrt(np.mean(error**2)) < 4 * math.sqrt(3) * 2 / math.sqrt(14_400)
        # the score of the fit is below that of the truth by half a squared error / 4, which is far below the error
        assert abs(fitted.score - exact_score(0.5)) < 4 * fitted.standard_error
        assert fitted.is_useful
        assert fitted.space == space

    def test_the_standard_error_is_that_of_repeated_samples(self) -> None:
        # 12 samples: the standard deviation of scores has an error of 21 %, so a factor of 2 is beyond chance
        fits = [
            fit_against_draws(known(Doubled()), rows(2000, seed=seed), ratio="logistic", random_state=seed)
            for seed in range(12)
        ]
        spread = np.std([one.score for one in fits], ddof=1)
        assert 0.5 < spread / np.mean([one.standard_error for one in fits]) < 2

    def test_a_perfect_flow_needs_no_correction(self) -> None:
        fitted = fit_against_draws(known(Doubled()), rows(4000, 0.0), ratio="logistic", random_state=0)
        assert abs(fitted.score) < 3 * fitted.standard_error + 1e-3
        assert not fitted.is_useful

    def test_other_rows_can_score(self) -> None:
        flow = known(Doubled())
        same = fit_against_draws(flow, rows(2000), ratio="logistic", X_held_out=rows(1000, 0.5, 5), random_state=0)
        other = fit_against_draws(flow, rows(2000), ratio="logistic", X_held_out=rows(1000, -2.0, 5), random_state=0)
        assert same.score > 0 > other.score
        assert not other.is_useful

    def test_draws_are_decoded_in_x_alone(self) -> None:
        flows = [Doubled(), Doubled()]
        for flow, space in zip(flows, ("z", "x"), strict=True):
            featurizer: Any = known(flow)
            settings: Any = {"space": space, "n_draws": 300, "random_state": 0}
            fit_against_draws(featurizer, rows(500), ratio="logistic", **settings)
            # 300 to fit, 2000 for the score
            assert featurizer.flow_.n_decoded == (2300 if space == "x" else 0)

    def test_the_same_seed_gives_the_same_bits(self) -> None:
        scores = [
            fit_against_draws(known(Doubled()), rows(300), ratio="logistic", random_state=seed).score
            for seed in (0, 0, 1)
        ]
        assert scores[0] == scores[1] != scores[2]

    def test_containers(self) -> None:
        X, featurizer = rows(300), known(Doubled())
        expected = fit_against_draws(featurizer, X, ratio="logistic", random_state=0).score
        for table in (pd.DataFrame(X, columns=["a", "b"]), pl.DataFrame(X, schema=["a", "b"])):
            assert fit_against_draws(featurizer, table, ratio="logistic", random_state=0).score == expected


class TestNoise:
    def test_rows_of_discrete_columns_have_the_noise_of_the_flow(self) -> None:
        X = np.random.default_rng(0).integers(0, 4, (400, 2)).astype(float)
        featurizer = FlowFeaturizer(n_blocks=1, hidden=(4,), max_epochs=1, random_state=0).fit(X)
        codes = _codes(featurizer, X, np.random.default_rng(0))
        assert len(np.unique(codes, axis=0)) == 400
        assert len(np.unique(featurizer.transform(X), axis=0)) <= 16
        assert _n_versions(featurizer, 400, None) == 5
        assert _n_versions(featurizer, 40_000, None) == 1
        assert _n_versions(featurizer, 40_000, 7) == 7
        assert _n_versions(known(Doubled()), 400, 7) == 1

    def test_versions_of_a_row_are_one_group(self) -> None:
        versions, draws = [np.full((3, 1), k) + np.arange(3.0)[:, None] / 10 for k in range(2)], np.zeros((4, 1))
        samples = _samples(versions, draws)
        assert samples.groups is not None
        np.testing.assert_array_equal(samples.groups, [0, 1, 2, 0, 1, 2, 3, 4, 5, 6])
        assert (samples.n_p, samples.n_q) == (6, 4)
        assert samples.log_odds == pytest.approx(math.log(6 / 4))


class TestLabels:
    RECIPE = Recipe(20, 64, 1e-3)

    def fit(self, n_q: int = 2000, **changed: Any) -> AgainstDraws:
        """Fit the ratios of p = N((-1, -1), I) and q = N((1, 1), I) of z to draws from N(0, I)."""
        rng = np.random.default_rng(4)
        Z = rng.normal(size=(4000 + n_q, 2)) + np.repeat([-1, 1], [4000, n_q])[:, None]
        settings = {"y": np.repeat(["p", "q"], [4000, n_q]), "recipe": self.RECIPE, "random_state": 0}
        return fit_against_draws(known(Doubled()), 2 * Z, **{**settings, **changed})

    def test_ratios_are_those_of_each_sample_and_of_the_mixture_to_a_gaussian(self) -> None:
        fitted, Z = self.fit(), np.random.default_rng(1).normal(0, 0.7, (2000, 2))
        of_p, of_q = -Z.sum(axis=1) - 1, Z.sum(axis=1) - 1
        of_mixture = np.logaddexp(math.log(2 / 3) + of_p, math.log(1 / 3) + of_q)
        # 1600 rows of q: their mean is off by 1/40 in each column, and 20 passes leave a network more than that
        for label, truth in (("p", of_p), ("q", of_q)):
            assert np.sqrt(np.mean((fitted.of(label).log_ratio(Z) - truth) ** 2)) < 0.3
        assert np.sqrt(np.mean((fitted.log_ratio(Z) - of_mixture) ** 2)) < 0.3
        assert fitted.labels == ("p", "q")
        assert fitted.is_useful

    def test_the_same_seed_gives_the_same_bits(self) -> None:
        recipe, Z = Recipe(1, 64, 1e-3), np.ones((1, 2))
        values = [self.fit(200, recipe=recipe, random_state=seed).log_ratio(Z)[0] for seed in (0, 0, 1)]
        assert values[0] == values[1] != values[2]

    def test_the_default_training(self) -> None:
        fitted = self.fit(recipe=None)
        assert fitted.is_useful

    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """Record what the network is trained on."""
        calls: dict[str, Any] = {}

        def record(codes: Any, held_out: Any, draw: Any, shares: Any, *_: Any) -> LabelRatios:
            d = codes[0].shape[1]
            calls.update(codes=codes, held_out=held_out, shares=shares, draws=draw(7, np.random.default_rng(0)))
            return LabelRatios(MLP(d, n_outputs=3), np.log(shares))

        monkeypatch.setattr(against_draws, "fit_label_ratios", record)
        return calls

    def test_no_row_has_codes_on_both_sides(self, calls: dict[str, Any]) -> None:
        Z = np.random.default_rng(0).normal(size=(440, 2)).astype(np.float32)
        y = np.repeat([0, 1], [400, 40])
        fit_against_draws(known(Doubled()), 2 * Z, y, random_state=0)
        sides = [np.concatenate(calls[name])[:, 0] for name in ("codes", "held_out")]
        # 44 rows for the score. 40 of the other 396 select the weights
        assert [len(one) for one in sides] == [356, 40]
        assert len(np.unique(np.concatenate(sides))) == 396
        for j in range(2):
            assert np.isin(calls["codes"][j], Z[y == j]).all()
        assert calls["shares"].sum() == pytest.approx(1)
        assert calls["draws"].shape == (7, 2)

    def test_the_smaller_sample_has_more_versions(self, calls: dict[str, Any]) -> None:
        X = np.random.default_rng(0).integers(0, 4, (440, 2)).astype(float)
        featurizer = FlowFeaturizer(n_blocks=1, hidden=(4,), max_epochs=1, random_state=0).fit(X)
        fit_against_draws(featurizer, X, np.repeat([0, 1], [400, 40]), n_versions=2, random_state=0)
        n_p, n_q = (len(codes) for codes in calls["codes"])
        assert abs(n_p - 2 * 0.81 * 400) < 20
        # a whole number of versions, about ten for each of those of p
        assert abs(n_q / n_p - 1) < 0.1
        for codes in calls["codes"]:
            assert len(np.unique(codes, axis=0)) == len(codes)

    def test_bad_input(self) -> None:
        with pytest.raises(ValueError, match=r"`y` has 3 labels, and `X` has 6000 rows\. Give one label for each row"):
            self.fit(y=[0, 1, 1])
        with pytest.raises(ValueError, match="at least 20 rows of each label"):
            self.fit(10)
        with pytest.raises(ValueError, match=r"`y` is given, .* trained on new draws in z\. Leave `y` out, or"):
            self.fit(space="x")
        with pytest.raises(ValueError, match=r"`recipe` is for the network of labels `y`\. Give `y`"):
            self.fit(y=None)
        with pytest.raises(ValueError, match=r"`label` is 'r'\. Use one of the labels .* \['p', 'q'\]"):
            self.fit(200, recipe=Recipe(1, 64, 1e-3)).of("r")


class TestCorrection:
    @pytest.fixture
    def featurizer(self) -> FlowFeaturizer:
        return known(WithSpecks())

    def sampler(self, featurizer: FlowFeaturizer, **changed: Any) -> TargetedSampler:
        return TargetedSampler(**{"ratio": OfCodes(), "featurizer": featurizer, "random_state": 0, **changed})

    @pytest.mark.parametrize("toward", ["p", "q"])
    @pytest.mark.parametrize("case", ["z", "x", "z, then x", "z, then x by a correction in z"])
    def test_specks_are_not_drawn(self, featurizer: FlowFeaturizer, toward: Any, case: str) -> None:
        in_z = AgainstDraws(featurizer, ToSpecks(), "z", 0.1, 0.01)
        in_x = AgainstDraws(featurizer, ToSpecks(2.0), "x", 0.1, 0.01)
        settings = {
            "z": {"correction": in_z},
            "x": {"correction": in_x, "ratio": OfRows(), "space": "x"},
            "z, then x": {"correction": in_x, "refine": OfRows()},
            "z, then x by a correction in z": {"correction": in_z, "refine": OfRows()},
        }[case]
        drawn = self.sampler(featurizer, **settings).draw(2000, toward)
        # in units of the target, a standard Gaussian. Five standard errors of n rows from m effective candidates
        z = drawn.X / 2 - {"p": 1, "q": -1}[toward]
        error = math.sqrt(1 / 2000 + 1 / drawn.effective_sample_size)
        assert np.abs(z.mean(axis=0)).max() < 5 * error
        assert np.abs((z**2).mean(axis=0) - 1).max() < 5 * math.sqrt(2) * error
        plain = self.sampler(featurizer).draw(2000, toward)
        # the ratio p/q assigns half of the specks to each
        assert np.mean(plain.X[:, 0] > 9) == pytest.approx(0.25, abs=0.05)
        # the correction lowers weights only, so that they stay bounded by 2
        if "then" not in case:
            assert drawn.log_w.max() <= math.log(2) + 1e-9

    def test_a_correction_that_is_not_useful_is_not_used(self, featurizer: FlowFeaturizer) -> None:
        chance = AgainstDraws(featurizer, ToSpecks(), "z", 0.01, 0.01)
        assert not chance.is_useful
        expected = self.sampler(featurizer).sample(100)
        np.testing.assert_array_equal(self.sampler(featurizer, correction=chance).sample(100), expected)

    def test_a_fitted_correction(self, featurizer: FlowFeaturizer) -> None:
        rng = np.random.default_rng(3)
        X = 2 * (rng.normal(size=(2000, 2)) + np.where(np.arange(2000)[:, None] % 2, 1, -1))
        correction = fit_against_draws(featurizer, X, ratio="quadratic", random_state=0)
        assert correction.is_useful
        drawn = self.sampler(featurizer, correction=correction).sample(2000, "p")
        # 25 % without it
        assert np.mean(drawn[:, 0] > 9) < 0.01

    def test_a_ratio_of_the_target_to_draws_is_a_ratio(self, featurizer: FlowFeaturizer) -> None:
        X = 2 * (np.random.default_rng(3).normal(size=(4000, 2)) + 1)
        to_draws = fit_against_draws(featurizer, X, ratio="quadratic", random_state=0)
        sampler = TargetedSampler(to_draws, featurizer, random_state=0)
        z = sampler.sample(2000, "p") / 2 - 1
        # 3/8 of 200 000 candidates are of p. 3600 rows were fitted
        assert np.abs(z.mean(axis=0)).max() < 5 * math.sqrt(1 / 2000 + 1 / 3600)
        with pytest.raises(ValueError, match="`proportion` is 0, so candidates come from q"):
            sampler.sample(5, "q")
        in_x = fit_against_draws(featurizer, X, ratio="quadratic", space="x", random_state=0)
        with pytest.raises(ValueError, match=r"`ratio` was fitted in x\. Use `space='x'`"):
            TargetedSampler(in_x, featurizer).sample(5)
        refined = TargetedSampler(to_draws, featurizer, refine=in_x, random_state=0).sample(2000) / 2 - 1
        assert np.abs(refined.mean(axis=0)).max() < 5 * math.sqrt(2 / 2000 + 1 / 3600)


class TestBadInput:
    def test_no_correction(self) -> None:
        for correction in (True, ClassifierRatio("logistic")):
            sampler = TargetedSampler(OfCodes(), known(Doubled()), correction=correction)  # pyright: ignore[reportArgumentType]
            with pytest.raises(TypeError, match=r"`correction` is .*\. Give the result of `against_draws"):
                sampler.sample(5)

    def test_another_flow(self) -> None:
        other = AgainstDraws(known(Doubled()), ToSpecks(), "z", 0.1, 0.01)
        with pytest.raises(ValueError, match=r"`correction` was fitted to draws of another flow\. Use the flow of the"):
            TargetedSampler(OfCodes(), known(Doubled()), correction=other).sample(5)

    def test_a_correction_in_x_for_candidates_in_z(self) -> None:
        featurizer = known(Doubled())
        in_x = AgainstDraws(featurizer, ToSpecks(), "x", 0.1, 0.01)
        with pytest.raises(ValueError, match=r"in x, but candidates are weighted in z\. Give a ratio in x as `refine`"):
            TargetedSampler(OfCodes(), featurizer, correction=in_x).sample(5)

    def test_a_ratio_to_draws_in_z_as_refine(self) -> None:
        featurizer = known(Doubled())
        in_z = AgainstDraws(featurizer, ToSpecks(), "z", 0.1, 0.01)
        with pytest.raises(ValueError, match="`refine` was fitted in z"):
            TargetedSampler(in_z, featurizer, refine=AgainstDraws(featurizer, ToSpecks(), "z", 0.1, 0.01)).sample(5)
        in_x = AgainstDraws(featurizer, ToSpecks(), "x", 0.1, 0.01)
        with pytest.raises(ValueError, match=r"`refine` is a ratio to draws, but `proportion` is 0\.5"):
            TargetedSampler(OfCodes(), featurizer, refine=in_x).sample(5)

    def test_a_ratio_to_draws_is_not_corrected_again(self) -> None:
        featurizer = known(Doubled())
        to_draws = AgainstDraws(featurizer, ToSpecks(), "z", 0.1, 0.01)
        with pytest.raises(ValueError, match=r"`ratio` is a ratio to draws already\. Leave `correction` out"):
            TargetedSampler(to_draws, featurizer, correction=to_draws).sample(5)

    def test_rows_of_a_table(self) -> None:
        rng = np.random.default_rng(0)
        tables = [pl.DataFrame({"a": rng.normal(k, 1, 60), "b": rng.choice(["u", "v"], 60)}) for k in (0, 1)]
        flow = FlowFeaturizer(n_blocks=1, hidden=(4,), max_epochs=1, random_state=0)
        ratio = FeaturizedRatio("logistic", featurizer=flow, random_state=0).fit_samples(*tables)
        of_ratio: Any = ratio.featurizer_
        correction = AgainstDraws(of_ratio, ToSpecks(), "z", 0.1, 0.01)
        with pytest.raises(ValueError, match="`correction` is set, but rows of a table have no correction"):
            TargetedSampler(ratio, correction=correction).sample(5)

    def test_rows(self) -> None:
        featurizer = known(Doubled())
        with pytest.raises(ValueError, match=r"`X` has shape \(19, 2\), or missing values\. Use at least 20 rows of 2"):
            fit_against_draws(featurizer, rows(19))
        with pytest.raises(ValueError, match=r"`X_held_out` has shape \(30, 3\)"):
            fit_against_draws(featurizer, rows(30), X_held_out=np.zeros((30, 3)))
        with pytest.raises(ValueError, match=r"`X` has shape \(30, 2\), or missing values"):
            fit_against_draws(featurizer, np.full((30, 2), np.nan))
        with pytest.raises(ValueError, match="`space` is 'latent'"):
            fit_against_draws(featurizer, rows(30), space="latent")  # pyright: ignore[reportArgumentType]
        with pytest.raises(ValueError, match="`n_draws` is 0"):
            fit_against_draws(featurizer, rows(30), n_draws=0)
        with pytest.raises(NotFittedError):
            fit_against_draws(FlowFeaturizer(), rows(30))
        with pytest.raises(TypeError, match="`featurizer` is 'maf'"):
            fit_against_draws("maf", rows(30))  # pyright: ignore[reportArgumentType]
