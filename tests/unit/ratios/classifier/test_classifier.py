from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from flowratio.ratios.base import OverlapWarning
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.samples.stacking import stack
from flowratio.samples.two_samples import two_samples

# small samples a standard deviation or more apart: the warning is right, and tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")


def _shifted(n_p: int, n_q: int, d: int = 2, shift: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1, (n_p, d)), rng.normal(0, 1, (n_q, d))


def _truth(X: np.ndarray, shift: float = 1.0) -> np.ndarray:
    return shift * X.sum(axis=1) - X.shape[1] * shift**2 / 2


def _global_state() -> str:
    state: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    return f"{state['state']['key'].tolist()} {state['state']['pos']}"


def _error(ratio: ClassifierRatio, X: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean((ratio.log_ratio(X) - truth) ** 2))


@pytest.mark.parametrize(
    ("name", "tolerance"),
    # variance of a fit of k numbers on n rows a sample is about 5 k / n here: k = 3 and 6. Boosting has no
    # such rule, and 1 is the error of log r = 0 within a factor of two
    [("logistic", 0.03), ("quadratic", 0.06), ("boosting", 0.25)],
)
def test_log_r_of_a_mean_shift(name: str, tolerance: float) -> None:
    X_p, X_q = _shifted(2000, 2000)
    _, held_out = _shifted(2, 2000, seed=1)
    ratio = ClassifierRatio(name, random_state=0).fit_samples(X_p, X_q)
    assert _error(ratio, held_out, _truth(held_out)) < tolerance


# trees are flat in the tails, where log r falls to -10
@pytest.mark.parametrize(("name", "tolerance"), [("quadratic", 0.1), ("boosting", 1.2)])
def test_log_r_of_a_change_of_scale(name: str, tolerance: float) -> None:
    rng = np.random.default_rng(0)
    X_p, X_q, held_out = 0.6 * rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2))
    truth = -2 * np.log(0.6) + 0.5 * (1 - 1 / 0.36) * (held_out**2).sum(axis=1)  # of variance 3.2
    ratio = ClassifierRatio(name, random_state=0).fit_samples(X_p, X_q)
    assert _error(ratio, held_out, truth) < tolerance


@pytest.mark.parametrize(
    "classifier",
    [
        *("logistic", "quadratic", "boosting"),
        *(LogisticRegression(), LogisticRegression(class_weight="balanced")),
        *(LogisticRegression(class_weight={0: 3.0, 1: 0.1}), make_pipeline(StandardScaler(), LogisticRegression())),
        make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")),
        RandomForestClassifier(50, min_samples_leaf=40, class_weight="balanced_subsample"),
        *(GaussianNB(), GaussianNB(priors=[0.5, 0.5]), LinearDiscriminantAnalysis(priors=[0.2, 0.8])),
        QuadraticDiscriminantAnalysis(),
    ],
)
def test_the_odds_of_the_samples_are_taken_out(classifier: Any) -> None:
    X_p, X_q = _shifted(5000, 500)
    ratio = ClassifierRatio(classifier, random_state=0).fit_samples(X_p, X_q)
    # odds left in would be an error of log 10 = 2.3 in log r; those of class_weight or priors at least 0.7
    assert abs(np.mean(ratio.log_ratio(X_q) - _truth(X_q))) < 0.5
    assert np.log(np.mean(ratio.ratio(X_q))) == pytest.approx(0, abs=0.5)


def test_class_weights_know_the_labels_of_the_user() -> None:
    X_p, X_q = _shifted(300, 300)
    X, y = stack(X_p, X_q)
    plain = ClassifierRatio(LogisticRegression(C=1e6)).fit(X, y).log_ratio(X)
    weighted = ClassifierRatio(LogisticRegression(C=1e6, class_weight={False: 7.0})).fit(X, y == 1)
    # odds of 7 left in would be off by 1.9; another weight moves the fit within its error, about sqrt(5 · 3 / 300)
    assert np.abs(weighted.log_ratio(X) - plain).mean() < 0.3


def test_class_weight_deep_inside_is_refused() -> None:
    inside = CalibratedClassifierCV(LogisticRegression(class_weight="balanced"))
    with pytest.raises(ValueError, match="`classifier` has 'estimator__class_weight' set in a nested estimator"):
        ClassifierRatio(inside).fit_samples(*_shifted(30, 30))


def test_large_logits_stay_exact() -> None:
    # two points, 20 sd apart, that a penalty of 1/C holds at logits of about 60: p/(1-p) knows nothing beyond 37
    X_p, X_q = np.array([[1.0], [1.0 + 1e-3]]), np.array([[-1.0], [-1.0 - 1e-3]])
    classifier = LogisticRegression(C=1e30, tol=1e-12, max_iter=1000)
    with pytest.warns(OverlapWarning):
        ratio = ClassifierRatio(classifier).fit_samples(X_p, X_q)
    far = np.array([[30.0], [60.0]])
    fitted: Any = ratio.classifier_
    logits = fitted.coef_[0, 0] * (far[:, 0] - ratio.mean_[0]) / ratio.scale_[0] + fitted.intercept_[0]
    assert logits.min() > 60
    np.testing.assert_allclose(ratio.log_ratio(far), logits, rtol=1e-12)


def test_logistic_extrapolates_its_line_to_60_nats() -> None:
    X_p, X_q = _shifted(500, 500, d=1)
    ratio = ClassifierRatio().fit_samples(X_p, X_q)
    at = ratio.log_ratio([[0.0], [1.0], [60.0]])
    assert at[2] > 50
    assert at[2] == pytest.approx(at[0] + 60 * (at[1] - at[0]), rel=1e-12)


def test_wide_rows_are_fitted_too() -> None:
    X_p, X_q = _shifted(40, 40, d=300, shift=0.1)
    with pytest.warns(OverlapWarning):
        ratio = ClassifierRatio().fit_samples(X_p, X_q)
    assert np.mean(ratio.log_ratio(X_p)) > np.mean(ratio.log_ratio(X_q))
    X_p, X_q = _shifted(100, 100, d=900, shift=0.1)  # 406 350 products, of which few are used
    with pytest.warns(OverlapWarning):
        ratio = ClassifierRatio("quadratic").fit_samples(X_p, X_q)
    assert np.mean(ratio.log_ratio(X_p)) > np.mean(ratio.log_ratio(X_q))


def test_a_decision_function_that_is_no_logit_is_not_taken_for_one() -> None:
    X_p, X_q = _shifted(200, 200)
    forms = {
        "decision_function": LogisticRegression(),
        "predict_log_proba": GaussianNB(),
    }
    for method, classifier in forms.items():
        assert ClassifierRatio(classifier).fit_samples(X_p, X_q).readout_.method == method

    class HalfLogit(LogisticRegression):
        def decision_function(self, X: Any) -> np.ndarray:
            return super().decision_function(X) / 2

        def predict_proba(self, X: Any) -> np.ndarray:
            p = 1 / (1 + np.exp(-super().decision_function(X)))
            return np.column_stack([1 - p, p])

    honest = ClassifierRatio(LogisticRegression()).fit_samples(X_p, X_q)
    halved = ClassifierRatio(HalfLogit()).fit_samples(X_p, X_q)
    assert halved.readout_.method == "predict_log_proba"
    np.testing.assert_allclose(halved.log_ratio(X_q), honest.log_ratio(X_q), atol=1e-9)


@pytest.mark.parametrize("classifier", [DecisionTreeClassifier(), KNeighborsClassifier(3)])
def test_probabilities_of_0_and_1_give_finite_log_r(classifier: Any) -> None:
    X_p, X_q = _shifted(200, 100)
    ratio = ClassifierRatio(classifier, random_state=0).fit_samples(X_p, X_q)
    log_r = ratio.log_ratio(np.concatenate([X_p, X_q, [[50.0, 50.0], [-50.0, -50.0]]]))
    assert np.abs(log_r).max() == pytest.approx(np.log(301))  # both have rows of probability 0, of 300
    assert log_r[-2] > 0 > log_r[-1]


def test_a_score_needs_calibration() -> None:
    X_p, X_q = _shifted(300, 300)
    with pytest.raises(ValueError, match=r"LinearSVC.*Use `calibration='sigmoid'`"):
        ClassifierRatio(LinearSVC()).fit_samples(X_p, X_q)
    for calibration in ("sigmoid", "isotonic"):
        ratio = ClassifierRatio(LinearSVC(), calibration=calibration, random_state=0).fit_samples(X_p, X_q)
        # of variance 2; a fit of 3 numbers has about 5 · 3 / 300, steps of an isotonic one more
        assert _error(ratio, X_q, _truth(X_q)) < 0.4


class Overconfident(LogisticRegression):
    """Logits three times too large, and moved by one."""

    def decision_function(self, X: Any) -> np.ndarray:
        return 3 * super().decision_function(X) + 1

    def predict_proba(self, X: Any) -> np.ndarray:
        p = 1 / (1 + np.exp(-self.decision_function(X)))
        return np.column_stack([1 - p, p])

    def predict_log_proba(self, X: Any) -> np.ndarray:
        return np.log(self.predict_proba(X))


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_calibration_repairs_an_overconfident_classifier(calibration: Any) -> None:
    X_p, X_q = _shifted(4000, 800)
    _, held_out = _shifted(2, 1000, seed=1)
    raw = ClassifierRatio(Overconfident()).fit_samples(X_p, X_q)
    assert _error(raw, held_out, _truth(held_out)) > 5  # 4 · 2 of the slope alone
    repaired = ClassifierRatio(Overconfident(), calibration=calibration, random_state=0).fit_samples(X_p, X_q)
    # as above with 800 rows of q; an isotonic fit has none of them beyond its last step
    assert _error(repaired, held_out, _truth(held_out)) < (0.1 if calibration == "sigmoid" else 0.5)
    assert repaired.score(*stack(X_p, X_q)) > raw.score(*stack(X_p, X_q)) + 0.02


def test_calibration_repairs_a_tree() -> None:
    X_p, X_q = _shifted(1000, 1000)
    test = stack(*_shifted(1000, 1000, seed=1))
    scores = [
        ClassifierRatio(RandomForestClassifier(30), calibration=calibration, random_state=0)
        .fit_samples(X_p, X_q)
        .score(*test)
        for calibration in (None, "isotonic")
    ]
    assert scores[1] > scores[0] + 0.02


@pytest.mark.parametrize(
    ("classifier", "settings"),
    [
        ("logistic", {}),
        ("quadratic", {}),
        ("boosting", {}),
        ("logistic", {"calibration": "isotonic"}),
        (make_pipeline(StandardScaler(), LogisticRegression()), {}),
        (KNeighborsClassifier(), {"calibration": "sigmoid"}),  # takes no weights: rows are repeated
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_are_repetitions(classifier: Any, settings: dict[str, Any]) -> None:
    X, y = stack(*_shifted(60, 50))
    w = np.random.default_rng(0).integers(1, 4, size=len(X))
    ratio = ClassifierRatio(classifier, random_state=0).set_params(**settings)
    weighted = ratio.fit(X, y, w).log_ratio(X)
    repeated = ratio.fit(np.repeat(X, w, axis=0), np.repeat(y, w)).log_ratio(X)
    np.testing.assert_allclose(weighted, repeated, rtol=0, atol=1e-9)
    assert np.abs(weighted - ratio.fit(X, y).log_ratio(X)).max() > 1e-3


def test_weights_in_fractions_need_a_classifier_that_takes_them() -> None:
    X, y = stack(*_shifted(30, 30))
    with pytest.raises(ValueError, match=r"weights of 0.54.* to 1.33.*, but the `fit` of KNeighborsClassifier"):
        ClassifierRatio(KNeighborsClassifier()).fit(X, y, np.linspace(0.5, 2, 60))


def test_same_seed_same_bits_in_any_order() -> None:
    X, y = stack(*_shifted(150, 120))
    order = np.random.default_rng(0).permutation(len(X))
    state = _global_state()
    fits = [
        ClassifierRatio("boosting", random_state=seed).fit(X[rows], y[rows]).log_ratio(X)
        for seed, rows in ((0, slice(None)), (0, slice(None)), (0, order), (1, slice(None)))
    ]
    assert np.array_equal(fits[0], fits[1])
    np.testing.assert_allclose(fits[0], fits[2], rtol=0, atol=1e-6)
    assert not np.array_equal(fits[0], fits[3])
    assert _global_state() == state


def test_a_given_classifier_is_cloned_and_seeded() -> None:
    X_p, X_q = _shifted(60, 60)
    forest = RandomForestClassifier(5)
    state = _global_state()
    one, two = (ClassifierRatio(forest, random_state=3).fit_samples(X_p, X_q).log_ratio(X_q) for _ in range(2))
    assert np.array_equal(one, two)
    assert not hasattr(forest, "classes_")
    assert _global_state() == state


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"classifier": "svm"},
            r"`classifier` is 'svm'. Use one of logistic, lda, quadratic, qda, additive, boosting, or",
        ),
        ({"classifier": "mlp"}, r"`classifier` is 'mlp', which is a network. Use `NetworkRatio\('mlp'\)`"),
        ({"classifier": "cnn"}, r"Use `NetworkRatio\('cnn'\)`"),
        ({"calibration": "platt"}, "`calibration` is 'platt'. Use 'isotonic', 'sigmoid' or None"),
        ({"n_folds": 1}, "`n_folds` is 1"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClassifierRatio(**settings).fit_samples(*_shifted(10, 10))


def test_what_is_no_classifier_is_refused() -> None:
    X_p, X_q = _shifted(10, 10)
    with pytest.raises(TypeError, match="neither `predict_proba` nor `decision_function`"):
        ClassifierRatio(LinearRegression()).fit_samples(X_p, X_q)
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"`classifier` is 3\. Use a name or a scikit-learn classifier"):
        ClassifierRatio(wrong).fit_samples(X_p, X_q)


def test_versions_of_a_row_are_held_out_together() -> None:
    samples = two_samples(*_shifted(40, 30)).mapped(lambda X: X, lambda X: X + 1e-3, lambda X: X - 1e-3)
    fold = ClassifierRatio(calibration="sigmoid")._folds(samples, np.random.default_rng(0))
    assert samples.groups is not None
    assert all(len(np.unique(fold[samples.groups == group])) == 1 for group in np.unique(samples.groups))
    for part in (fold[:120], fold[120:]):
        assert np.ptp(np.bincount(part, minlength=5)) == 0  # 40 and 30 groups of 3 rows in 5 folds


@pytest.mark.parametrize(("name", "is_alike"), [("boosting", True), ("qda", True), ("logistic", False)])
def test_classifiers_that_count_rows_see_one_version_of_a_row(name: str, is_alike: bool) -> None:
    X_p, X_q = _shifted(60, 60)
    samples = two_samples(X_p, X_q)
    one, two = ClassifierRatio(name, random_state=0), ClassifierRatio(name, random_state=0)
    one._fit(samples)
    two._fit(samples.mapped(lambda X: X, lambda X: X + 5))
    assert np.allclose(one._log_ratio(X_q), two._log_ratio(X_q)) == is_alike


def test_calibration_needs_two_rows_of_each_sample() -> None:
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 1, 1])
    with pytest.raises(ValueError, match="at least 2 rows of each sample"):
        ClassifierRatio(calibration="sigmoid").fit(X, y, [2.5, 1.0, 1.0, 1.0])


def test_classifiers_of_scikit_learn_load_no_torch() -> None:
    code = "import sys; from flowratio import ClassifierRatio as C; "
    code += "C('boosting').fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
