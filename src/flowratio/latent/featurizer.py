r"""Scaling and a flow in one scikit-learn transformer: x to the latent z, and back.

.. math:: z = f(s(x)), \qquad
          \log p(x) = \log p_Z(z) + \log|\det \partial f| + \log|\det \partial s|
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import nn
from typing_extensions import Self

from flowratio._support.validation import (
    RandomState,
    check_training_settings,
    is_count,
    seed_from,
    unchanged_on_failure,
)
from flowratio.flows import FLOWS, Flow, adapt
from flowratio.flows.adapters import seeded
from flowratio.flows.base import choose_device, like
from flowratio.latent.defaults import _batch_size, _hidden, _learning_rate, _max_epochs, _weight_decay
from flowratio.samples.rows import ArrayRows, Rows, open_rows
from flowratio.scaling.base import Scaler, silent_scaling
from flowratio.scaling.chain import ScalerChain
from flowratio.scaling.discrete import Lattice
from flowratio.scaling.gaussianizer import Gaussianizer
from flowratio.scaling.images import Dequantizer, Logit
from flowratio.scaling.standardizer import Standardizer
from flowratio.scaling.whitener import Whitener
from flowratio.training.loop import Prepare, train
from flowratio.training.run import History, Recipe

_FLOATS: Any = [np.float64, np.float32]  # types that are kept; others become the first
_CHUNK_ROWS, _CHUNK_VALUES = 8192, 1 << 18  # rows mapped at a time, and values of x in them at most
_SCALING_ROWS = 200_000  # rows of a file from which its scaling is learned
_MAX_HELD_OUT = 20_000

_SCALINGS: dict[str, Callable[[], Scaler]] = {
    "standard": Standardizer,
    "gaussian": Gaussianizer,
    "white": lambda: ScalerChain([Gaussianizer(sparing=True), Whitener()]),
    "image": lambda: ScalerChain([Dequantizer(), Logit(), Standardizer()]),
    "none": lambda: ScalerChain([]),
}
# n_hidden = 1 in the paper's table is two hidden layers in its text and results; epochs as in that table
_PAPER: dict[str, dict[str, Any]] = {
    "uci": {"hidden": (100, 100), "max_epochs": 100, "scaling": "standard"},
    "toy": {"hidden": (100, 100), "max_epochs": 100, "scaling": "standard"},
    "mi": {"hidden": (100, 100), "max_epochs": 200, "scaling": "standard"},
    "mnist": {"hidden": (1024, 1024), "max_epochs": 200, "scaling": "image"},
    "omniglot": {"hidden": (1024, 1024, 1024), "max_epochs": 200, "scaling": "image"},
}


class FlowFeaturizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learn an invertible map from x to a standard normal z.

    An invertible map changes no density ratio, r(x) = p(x) / q(x) = p_Z(z) / q_Z(z): fitted on rows of p and q
    together, it gives the space in which the ratio is learned.

    Parameters
    ----------
    flow
        A name (`"maf"`, `"coupling"`, `"spline"`, `"spline-coupling"`), a function from the number of columns to a
        flow, or a pretrained flow (one of ours, of zuko, nflows or normflows), which is used as it is and not trained.
    n_blocks, hidden
        Number of blocks of a named flow and widths of the hidden layers of each; chosen from the data if None.
    scaling
        What comes before the flow: `"standard"`, `"gaussian"` (each column to a normal shape), `"white"` (those columns
        that are clearly not normal to a normal shape, then correlations removed), `"image"` (whole numbers 0…255
        dequantized, logit, standardized), `"none"`, or a scaler. `"auto"` is `"white"`, but `"none"` before a
        pretrained flow.
    dequantize
        Whether `fit` adds uniform noise to columns that take few values (2 to 100, each on 5 rows on average), within
        the cell of each value, from midpoint to midpoint. Such a column has no density: without noise the likelihood
        grows for ever, as the flow gathers in spikes. `transform` never adds any: z = f(x) is one z for each x, the
        values stay apart, and p(k)/q(k) is the same in z. The density at a value, times the width of its cell, is the
        probability of the value, and `sample` returns values that were there. Left off with a pretrained flow, the
        settings of the paper, and scalers that contain a `Dequantizer` or a `Logit`.
    max_epochs, batch_size, learning_rate, weight_decay, patience
        Settings of the training; chosen from the data if None.
    settings
        Where those come from that are None: `"default"`, or `"paper"` for the settings of Choi et al. (2021); see
        `from_paper`.
    validation_fraction
        Share of the rows held out to decide when to stop.
    random_state
        Seed: the same gives the same bits on the same machine. Global generators are never used.
    device
        `"auto"` for a GPU if there is one, or a name that torch knows.
    verbose
        Whether to show a progress bar.
    checkpoint
        Folder that keeps the state of the training: a run that was killed goes on from there, to the same bits.

    Attributes
    ----------
    flow_
        The fitted flow.
    scaler_
        The fitted scaler.
    lattice_
        The columns that take few values, to which noise was added; None if there are none. Of files and weighted rows
        they are learned from a sample of at most 200 000 rows.
    history_
        Losses by epoch, with `plot`; None for a pretrained flow.

    Notes
    -----
    What is None is chosen for n rows and d columns: two hidden layers, 32 wide below 1000 rows (more if d asks for it),
    else 64 or the power of two from 2 d on; about 150 batches an epoch, of 64 to 1024 rows; as many epochs as make 3000
    steps, at most 400; a learning rate of 0.005 for batches of 256, growing with the root of the batch, lower for
    layers wider than 256, after 50 steps of warm-up; a weight decay of 5000/n, at most 1; patience of a tenth of the
    epochs, at least 5, in which the held-out log-likelihood must gain 0.001 nats.

    References
    ----------
    .. [1] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.exp(rng.normal(size=(500, 2)))
    >>> featurizer = FlowFeaturizer(max_epochs=20, random_state=0).fit(X)
    >>> Z = featurizer.transform(X)
    >>> bool(np.allclose(featurizer.inverse_transform(Z), X, rtol=1e-3))
    True
    """

    lattice_: Lattice | None = None

    def __init__(
        self,
        flow: str | Callable[[int], nn.Module] | nn.Module = "maf",
        *,
        n_blocks: int | None = None,
        hidden: Sequence[int] | None = None,
        scaling: str | Scaler = "auto",
        dequantize: bool = True,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        settings: Literal["default", "paper"] = "default",
        validation_fraction: float = 0.1,
        random_state: RandomState = None,
        device: str = "auto",
        verbose: bool = False,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.flow = flow
        self.n_blocks = n_blocks
        self.hidden = hidden
        self.scaling = scaling
        self.dequantize = dequantize
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.settings = settings
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.checkpoint = checkpoint

    @classmethod
    def from_paper(cls, dataset: str, random_state: int | None = None, verbose: bool = False) -> Self:
        """Return the featurizer of Choi et al. (2021), Appendix D: MAF of 5 blocks with batch norm, Adam at 1e-4.

        Parameters
        ----------
        dataset
            `"uci"` (also the synthetic mixtures), `"toy"`, `"mi"`, `"mnist"` or `"omniglot"`: the row of the table.
        random_state, verbose
            As in the class.
        """
        if dataset not in _PAPER:
            raise ValueError(f"`dataset` is {dataset!r}: the paper's table has {', '.join(_PAPER)}.")
        return cls(settings="paper", random_state=random_state, verbose=verbose, **_PAPER[dataset])

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the scaling, then the flow.

        Parameters
        ----------
        X
            Rows of p and q together, of shape (n, d), the path of a `.npy` or `.parquet` file, which is read in blocks
            and never loaded whole, or `Rows`, such as those of `flowratio.samples.rows.WeightedRows`.
        y
            Ignored.
        """
        if y is not None and getattr(y, "ndim", 1) == 2 and y.shape[1] > 1:
            raise ValueError("`y` looks like a second sample: fit on both as one, `X, y = stack(X_p, X_q)`.")
        with unchanged_on_failure(self):
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        rows, seed = self._begin(X, self.dequantize)
        self.history_ = None if isinstance(self.flow, nn.Module) else self._train(rows, seed)
        self.flow_.eval()

    def initialize(self, X: Any) -> Self:
        """Fit the scaling and draw the first weights of the flow, but do not train it: where joint training starts.

        No noise is added to columns that take few values.

        Parameters
        ----------
        X
            Rows, as in `fit`.
        """
        with unchanged_on_failure(self):
            self._begin(X, dequantize=False)
            self.history_ = None
            self.flow_.eval()
        return self

    def _begin(self, X: Any, dequantize: bool) -> tuple[Rows, int]:
        """Set lattice, scaler and flow for what `X` holds; return its rows and the seed."""
        self._check_settings()
        rows = self._open(X)
        seed = seed_from(self.random_state)
        if type(rows) is ArrayRows:
            known = next(rows.blocks(rows.n_rows))
        else:
            known = rows.sample(_SCALING_ROWS, np.random.default_rng([seed, 0, 1]))
        scaler = self._new_scaler()
        self.lattice_ = self._new_lattice(known, scaler) if dequantize else None
        if self.lattice_ is not None:
            with silent_scaling():
                plane = Standardizer().fit_array(known)  # noise must not hide that columns are combinations of others
            self.lattice_ = self.lattice_.ordered(plane.kept_)
            known = self.lattice_.jitter(known, np.random.default_rng([seed, 0, 4]))
            known = plane.rebuild(known[:, plane.kept_]) if len(plane.dropped_) else known
        self.scaler_ = scaler.fit_array(known, rows.feature_names)
        d = self._n_features_out = self.scaler_.n_features_out_
        self.flow_ = self._new_flow(d, rows.n_rows, seed).to(choose_device(self.device))
        if self.flow_.n_features != d:
            raise ValueError(
                f"`flow` maps {self.flow_.n_features} columns, but the data have {d}"
                f"{'' if d == rows.n_features else ' after scaling'}: give a flow of that dimension."
            )
        return rows, seed

    def _check_settings(self) -> None:
        check_training_settings(self, counts=("n_blocks",))
        if self.checkpoint is not None and not isinstance(self.random_state, numbers.Integral):
            raise ValueError(
                f"`checkpoint` is given with `random_state` {self.random_state!r}: give a whole number, by which the "
                "run is known when it is started again."
            )
        if self.settings not in ("default", "paper"):
            raise ValueError(f"`settings` is {self.settings!r}: give 'default' or 'paper'.")
        if self.settings == "paper" and self.flow != "maf":
            raise ValueError(f"`settings` is 'paper' with `flow` {self.flow!r}: the paper's flow is 'maf'.")

    def _open(self, X: Any) -> Rows:
        if isinstance(X, str | Path | Rows):
            rows = X if isinstance(X, Rows) else open_rows(X)
            if rows.n_rows < 2:
                name = "`X`" if isinstance(X, Rows) else X
                raise ValueError(f"{name} has {rows.n_rows} row: at least 2 are needed.")
            self.n_features_in_ = rows.n_features
            if rows.feature_names is not None:
                self.feature_names_in_ = np.array(rows.feature_names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return rows
        X = validate_data(self, X, dtype=_FLOATS, ensure_min_samples=2)
        return ArrayRows(X, list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None)

    def _new_scaler(self) -> Scaler:
        if isinstance(self.scaling, Scaler):
            scaler: Any = clone(self.scaling)
            return scaler
        name = self.scaling
        if name == "auto":
            name = "none" if isinstance(self.flow, nn.Module) else "white"
        if name not in _SCALINGS:
            raise ValueError(f"`scaling` is {name!r}: give a scaler, or one of auto, {', '.join(_SCALINGS)}.")
        return _SCALINGS[name]()

    def _new_lattice(self, known: np.ndarray, scaler: Scaler) -> Lattice | None:
        if isinstance(self.flow, nn.Module) or self.settings == "paper" or not _bears_noise(scaler):
            return None
        lattice = Lattice.learn(known)
        return lattice if len(lattice.columns) else None

    def _new_flow(self, d: int, n: int, seed: int) -> Flow:
        if isinstance(self.flow, nn.Module):
            return adapt(deepcopy(self.flow))  # the user's own stays on its device and in its mode
        if callable(self.flow):
            # a flow of another library draws its weights from the global generator: lend it a seeded one
            with seeded(seed, torch.device("cpu")):
                return adapt(self.flow(d))
        if self.flow not in FLOWS:
            raise ValueError(f"`flow` is {self.flow!r}: give a flow, a function, or one of {', '.join(FLOWS)}.")
        make: Any = FLOWS[self.flow]
        shape: dict[str, Any] = {"hidden": self.hidden or _hidden(n, d)}
        if self.n_blocks is not None:
            shape["n_blocks"] = self.n_blocks
        if self.settings == "paper":
            shape |= {"batch_norm": True, "max_log_scale": None}
        return make(d, **shape, generator=torch.Generator().manual_seed(seed))

    def recipe(self, n: int, d: int) -> Recipe:
        """Return the settings of the loop for n rows of d columns; what is None is chosen, as the notes above say."""
        paper = self.settings == "paper"
        hidden = self.hidden or _hidden(n, d)
        batch_size = self.batch_size or (100 if paper else _batch_size(n))
        max_epochs = self.max_epochs or (100 if paper else _max_epochs(n, batch_size))
        return Recipe(
            max_epochs=max_epochs,
            batch_size=batch_size,
            learning_rate=self.learning_rate or (1e-4 if paper else _learning_rate(batch_size, hidden)),
            weight_decay=(1e-6 if paper else _weight_decay(n)) if self.weight_decay is None else self.weight_decay,
            optimizer="adam" if paper else "adamw",
            schedule="constant" if paper else "cosine",
            patience=self.patience or (max_epochs if paper else min(max_epochs, max(5, max_epochs // 10))),
            min_gain=0.0 if paper else 0.001,
            warm_up=0 if paper else 50,
            clip_norm=math.inf if paper else 5.0,
            average=not paper,
            tolerance=0.01 * max(1.0, d / 4),
        )

    def _train(self, rows: Rows, seed: int) -> History:
        n = rows.n_rows
        n_held_out = round(self.validation_fraction * n)
        n_held_out = min(max(n_held_out, min(64, n // 4), 1), _MAX_HELD_OUT, n - 1)
        prepare: Prepare | None = self._prepare
        if isinstance(rows, ArrayRows) and not self.scaler_.stochastic and self.lattice_ is None:
            rows, prepare = rows.mapped(self.scaled(rows.X)), None
        rest, held_out = rows.split(n_held_out, np.random.default_rng([seed, 0, 2]))
        return train(
            self.flow_,
            lambda x: -self.flow_.log_prob(x).mean(),
            rest,
            held_out,
            self.recipe(rest.n_rows, self._n_features_out),
            seed=seed,
            prepare=prepare,
            verbose=self.verbose,
            checkpoint=self.checkpoint,
        )

    def _prepare(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.lattice_ is None:
            return self.scaler_.forward(X, rng)[0].astype(np.float32)
        with silent_scaling():  # combinations of other columns are left out, and have noise of their own
            return self.scaler_.forward(self.lattice_.jitter(X, rng), rng)[0].astype(np.float32)  # anew in every pass

    def scaled(self, X: np.ndarray) -> np.ndarray:
        """Scale all rows in memory, block by block into float32."""
        out = np.empty((len(X), self._n_features_out), np.float32)
        size = _chunk(X.shape[1])
        for start in range(0, len(X), size):
            out[start : start + size] = self.scaler_.forward(X[start : start + size])[0]
        return out

    def transform(self, X: Any) -> np.ndarray:
        """Map x to z: (n, d) to (n, d_z), in float32 for float32 rows and float64 for others."""
        return self.encode(self._checked(X))

    def encode(self, X: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Map x to z as `transform` does, but for an array of numbers that is known to be sound.

        Parameters
        ----------
        X
            Rows, of shape (n, d).
        rng
            Of the noise of a scaling that has some, such as `"image"`: z is then a draw among those that stand for a
            row, as those of `sample` are, and not the one in their middle.
        """
        Z = np.empty((len(X), self._n_features_out), np.float32 if X.dtype == np.float32 else np.float64)
        for part, z, _ in self._mapped(X, rng):
            Z[part] = z.cpu().numpy()
        return Z

    @torch.no_grad()
    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log-density of rows of x in nats, (n, d) to (n,)."""
        X = self._checked(X)
        log_p = np.empty(len(X))
        for part, z, log_det in self._mapped(X):
            log_p[part] = self.flow_.base_log_prob(z).cpu().double().numpy() + log_det
        return log_p

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-density of rows of x in nats; `y` is ignored."""
        del y
        return float(self.score_samples(X).mean())

    def _checked(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if isinstance(X, str | Path):
            raise ValueError(
                f"`X` is the path {X}: files are read by `fit` alone. Give rows, such as a block of the file."
            )
        return np.asarray(validate_data(self, X, dtype=_FLOATS, reset=False))

    @torch.no_grad()
    def _mapped(
        self, X: np.ndarray, rng: np.random.Generator | None = None
    ) -> Iterator[tuple[slice, torch.Tensor, np.ndarray]]:
        """Yield the rows a chunk at a time: where they stand, their z, and the log-determinant of x → z."""
        kind = like(self.flow_)
        size = _chunk(X.shape[1])
        for start in range(0, len(X), size):
            scaled, log_det = self.scaler_.forward(X[start : start + size], rng)
            z, flow_log_det = self.flow_(torch.tensor(scaled, dtype=kind.dtype, device=kind.device))
            yield slice(start, start + size), z, log_det + flow_log_det.cpu().double().numpy()

    @torch.no_grad()
    def inverse_transform(self, Z: Any) -> np.ndarray:
        """Map z to x: (n, d_z) to (n, d)."""
        check_is_fitted(self)
        Z = np.asarray(check_array(Z, dtype=_FLOATS))
        if Z.shape[1] != self._n_features_out:
            raise ValueError(f"`Z` has {Z.shape[1]} columns, but the latent space has {self._n_features_out}.")
        kind = like(self.flow_)
        X = np.empty((len(Z), self.n_features_in_), Z.dtype)
        size = _chunk(self.n_features_in_)
        for start in range(0, len(Z), size):
            z = torch.tensor(Z[start : start + size], dtype=kind.dtype, device=kind.device)
            x = self.flow_.inverse(z)[0].cpu().double().numpy()
            X[start : start + size] = self.scaler_.inverse(x)[0]
        return X

    def decode(self, Z: np.ndarray) -> np.ndarray:
        """Map z to x as `inverse_transform` does, but columns that take few values to the nearest of them."""
        X = self.inverse_transform(Z)
        return X if self.lattice_ is None else self.lattice_.snap(X)

    def sample(self, n: int = 1, random_state: int | np.random.Generator | None = None) -> np.ndarray:
        """Draw rows of x from the fitted density, of shape (n, d).

        Parameters
        ----------
        n
            Number of rows.
        random_state
            Seed of the draw; a new one each time if None.
        """
        check_is_fitted(self)
        if not is_count(n):
            raise ValueError(f"`n` is {n!r}: give a whole number of 1 or more.")
        generator = torch.Generator().manual_seed(seed_from(random_state))
        Z = self.flow_.base_sample(n, generator).detach().cpu().double().numpy()
        return self.decode(Z)


def _bears_noise(scaler: Scaler) -> bool:
    """Return whether a scaler takes values between those of the data, and adds no noise of its own."""
    steps = scaler.steps if isinstance(scaler, ScalerChain) else [scaler]
    return not any(isinstance(step, Dequantizer | Logit) for step in steps)


def _chunk(n_features: int) -> int:
    return min(_CHUNK_ROWS, max(64, _CHUNK_VALUES // n_features))


# The defaults below were chosen on synthetic densities and small real tables (200 to 160 000 rows, 1 to 40 columns).
