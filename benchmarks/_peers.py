"""The ratios of other libraries, each as `fit(X_p, X_q, seed)` that returns a function from rows to log r = log p/q.

Each library has its own direction. ADAPT and skada weight a source (our q) to match a target (our p), hep_ml weights an
original to match a target, and densratio(x, y) is x over y. All have their defaults, with two exceptions. ADAPT and
skada need a grid of bandwidths from the user. hep_ml does not determine a constant factor, so we normalize. A weight of
0 has no log, so it counts as machine epsilon, which ADAPT and skada add themselves. `classifiers` subtracts the
log-odds n_p : n_q from a plain classifier. `normalized` removes a mean over the rows that are scored.

Only the benchmarks need these libraries: pip install -c constraints.txt -e '.[peers]'
"""

from __future__ import annotations

import importlib
import importlib.metadata
import math
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sklearn
from scipy.special import logsumexp
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

Score = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray, int], Score]

MODULES = ("adapt.instance_based", "densratio", "skada", "hep_ml.reweight")


def peer(module: str) -> Any:
    """Import a module of a peer. Restore the settings of scikit-learn that it changes."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    settings = sklearn.get_config()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"{error}: this benchmark needs other libraries. Use `make bench`, or install them: "
            "pip install -c constraints.txt -e '.[peers]'"
        ) from error
    finally:
        sklearn.set_config(**settings)


def load_peers() -> str:
    """Import them all, so that no time includes it. Return their versions in one line."""
    names = ["numpy", "scikit-learn", *(peer(module).__name__.split(".")[0] for module in MODULES)]
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def grid(n: int) -> list[float]:
    """Return values for a search that a peer leaves to the user: n from 0.001 to 10, the range of densratio's own."""
    return [float(value) for value in np.logspace(-3, 1, n)]


def log_weights(w: Any) -> np.ndarray:
    return np.log(np.maximum(np.asarray(w, np.float64).ravel(), np.finfo(np.float64).eps))


def logistic(X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Score:
    X, y = np.concatenate([X_p, X_q]), np.repeat([1, 0], [len(X_p), len(X_q)])
    return LogisticRegression().fit(X, y).decision_function  # as many rows of p as of q, so there are no class odds


def boosting(X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Score:
    X, y = np.concatenate([X_p, X_q]), np.repeat([1, 0], [len(X_p), len(X_q)])
    return HistGradientBoostingClassifier(random_state=seed).fit(X, y).decision_function


def hep_boosting(X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Score:
    reweighter = peer("hep_ml.reweight").GBReweighter(gb_args={"random_state": seed})
    reweighter.fit(X_q, X_p)
    constant = np.log(reweighter.predict_weights(X_q).mean())
    return lambda X: log_weights(reweighter.predict_weights(X)) - constant


def densratios(method: str) -> Fit:
    def fit(X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Score:
        np.random.seed(seed)  # noqa: NPY002 - it draws its centers from the global generator
        model = peer("densratio").densratio(X_p, X_q, method=method, verbose=False)
        return lambda X: log_weights(model.compute_density_ratio(X))

    return fit


def adapts(method: str, gammas: float | Sequence[float] | None = None, lambdas: Sequence[float] | None = None) -> Fit:
    """Return ADAPT's KLIEP or ULSIF: with its own defaults, or with its search over these values."""
    grid: dict[str, Any] = {} if gammas is None else {"gamma": gammas}
    grid |= {} if lambdas is None else {"lambdas": lambdas}

    def fit(X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Score:
        np.random.seed(seed)  # noqa: NPY002 - its ULSIF draws its centers from the global generator
        model = getattr(peer("adapt.instance_based"), method)(Xt=X_p, verbose=0, random_state=seed, **grid)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "not enough centers", where a bandwidth is much too narrow
            model.fit_weights(X_q, X_p)
        return lambda X: log_weights(model.predict_weights(X))

    return fit


def adapt_kmm_weights(
    X_p: np.ndarray, X_q: np.ndarray, gamma: float | None = None, max_weight: float = 1000.0, tolerance: Any = None
) -> np.ndarray:
    """Return the weights of ADAPT's KMM, as one quadratic program: (n_q,)."""
    kernel = {} if gamma is None else {"gamma": gamma}
    size = len(X_q)
    model = peer("adapt.instance_based").KMM(Xt=X_p, B=max_weight, eps=tolerance, max_size=size, verbose=0, **kernel)
    return model.fit_weights(X_q, X_p)


def adapt_kmm(X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Score:
    w = adapt_kmm_weights(X_p, X_q)
    return lambda X: log_weights(w)  # of the rows of q that were fitted, and of no others


def skada_kmm_weights(
    X_p: np.ndarray, X_q: np.ndarray, gamma: float, max_weight: float, tolerance: float
) -> np.ndarray:
    """Return the weights of skada's KMM: (n_q,)."""
    adapter = peer("skada").KMMReweightAdapter(gamma=gamma, B=max_weight, eps=tolerance)
    X, domain = np.concatenate([X_q, X_p]), np.repeat([1, -1], [len(X_q), len(X_p)])
    return adapter.fit(X, sample_domain=domain).source_weights_


def skadas(name: str, settings: dict[str, Any] | None = None) -> Fit:
    def fit(X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Score:
        adapter = getattr(peer("skada"), f"{name}ReweightAdapter")(**(settings or {}))
        X, domain = np.concatenate([X_q, X_p]), np.repeat([1, -1], [len(X_q), len(X_p)])  # a source is positive
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "maximum iteration reached"
            adapter.fit(X, sample_domain=domain)
        return lambda X: log_weights(adapter.compute_weights(X, sample_domain=np.ones(len(X), int)))

    return fit


def skada_kmm(X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Score:
    adapter = peer("skada").KMMReweightAdapter()
    X, domain = np.concatenate([X_q, X_p]), np.repeat([1, -1], [len(X_q), len(X_p)])
    w = adapter.fit(X, sample_domain=domain).source_weights_
    return lambda X: log_weights(w)  # of the rows of q in the fit: those of other rows are far from the truth


def normalized(fit: Fit) -> Fit:
    """Return a peer whose mean ratio is 1 over rows of q, and not over whichever rows are scored.

    skada divides by the latter mean, which is the former only if the scored rows are those of q.
    """

    def fit_normalized(X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Score:
        score, reference = fit(X_p, X_q, seed), X_q[:5_000]

        def score_normalized(X: np.ndarray) -> np.ndarray:
            log_r = score(np.concatenate([reference, X]))
            return log_r[len(reference) :] - logsumexp(log_r[: len(reference)]) + math.log(len(reference))

        return score_normalized

    return fit_normalized


def classifiers(make: Callable[[int], Any]) -> Fit:
    """Return a classifier of scikit-learn, made from a seed, as a ratio: its logit minus the log-odds n_p : n_q."""

    def fit(X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Score:
        X, y = np.concatenate([X_p, X_q]), np.repeat([1, 0], [len(X_p), len(X_q)])
        log_odds = math.log(len(X_p) / len(X_q))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "maximum iterations reached"
            model = make(seed).fit(X, y)
        if hasattr(model, "decision_function"):
            return lambda X: model.decision_function(X) - log_odds

        def score(X: np.ndarray) -> np.ndarray:
            P = model.predict_proba(X)
            return log_weights(P[:, 1]) - log_weights(P[:, 0]) - log_odds

        return score

    return fit


def scaled_logistic(seed: int) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression())


def quadratic_logistic(seed: int) -> Any:
    products = PolynomialFeatures(2, include_bias=False)
    return make_pipeline(StandardScaler(), products, LogisticRegression(max_iter=1_000))


def trees(seed: int) -> Any:
    return HistGradientBoostingClassifier(random_state=seed)


def sklearn_mlp(seed: int) -> Any:
    return make_pipeline(StandardScaler(), MLPClassifier(early_stopping=True, random_state=seed))


def zuko_difference(X_p: np.ndarray, X_q: np.ndarray, seed: int) -> Score:
    """Fit a flow of zuko to each sample, in units of the pooled rows. log r is the difference of log-densities."""
    import torch

    scaler = StandardScaler().fit(np.concatenate([X_p, X_q]))
    flow_p, flow_q = (_zuko_maf(np.asarray(scaler.transform(X)), seed) for X in (X_p, X_q))

    @torch.no_grad()
    def score(X: np.ndarray) -> np.ndarray:
        rows = torch.from_numpy(scaler.transform(X)).float()
        parts = [flow_p().log_prob(x) - flow_q().log_prob(x) for x in rows.split(4096)]
        return torch.cat(parts).double().numpy()

    return score


def _zuko_maf(X: np.ndarray, seed: int, max_epochs: int = 100, patience: int = 10) -> Any:
    """Fit a MAF of 3 transforms, hidden (64, 64), by Adam at 1e-3, batches of 256. A tenth of the rows is held out."""
    import torch
    import zuko

    torch.manual_seed(seed)
    rows = torch.from_numpy(X).float()[torch.randperm(len(X))]
    held_out, rows = rows[: len(X) // 10], rows[len(X) // 10 :]
    flow = zuko.flows.MAF(X.shape[1], transforms=3, hidden_features=(64, 64))
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
    best, best_loss, best_epoch = {}, math.inf, 0
    for epoch in range(max_epochs):
        for x in rows[torch.randperm(len(rows))].split(256):
            optimizer.zero_grad()
            (-flow().log_prob(x).mean()).backward()
            optimizer.step()
        with torch.no_grad():
            loss = -flow().log_prob(held_out).mean().item()
        if loss < best_loss:
            best = {name: value.clone() for name, value in flow.state_dict().items()}
            best_loss, best_epoch = loss, epoch
        elif epoch - best_epoch >= patience:
            break
    flow.load_state_dict(best)
    return flow


FIELD: dict[str, Fit] = {
    "sklearn logistic": classifiers(scaled_logistic),
    "sklearn quadratic": classifiers(quadratic_logistic),
    "sklearn boosting": classifiers(trees),
    "sklearn MLP": classifiers(sklearn_mlp),
    "hep_ml GBReweighter": hep_boosting,
    "ADAPT KLIEP": adapts("KLIEP"),
    "ADAPT KLIEP grid": adapts("KLIEP", grid(9)),
    "ADAPT uLSIF": adapts("ULSIF"),
    "ADAPT KMM": adapt_kmm,
    "densratio KLIEP": densratios("KLIEP"),
    "densratio uLSIF": densratios("uLSIF"),
    "skada Gaussian": skadas("Gaussian"),
    "skada KDE": normalized(skadas("Density")),
    "skada KLIEP": skadas("KLIEP", {"gamma": 1.0}),
    "skada Discriminator": normalized(skadas("Discriminator")),
    "skada KMM": skada_kmm,
    "zuko MAFs": zuko_difference,
}
