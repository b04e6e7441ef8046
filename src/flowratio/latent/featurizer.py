"""Scaling and a flow in one scikit-learn transformer: x to the latent z, and back."""

from __future__ import annotations

import inspect
import numbers
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor, nn
from typing_extensions import Self

from flowratio._support import validation
from flowratio._support.chunks import chunks
from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix, TableLike, Vector
from flowratio._support.validation import RandomState, check_count, seed_from, unchanged_on_failure
from flowratio.flows import FLOWS, Flow, adapt
from flowratio.flows.adapters import seeded
from flowratio.flows.base import choose_device, like
from flowratio.latent.defaults import default_recipe, hidden_widths
from flowratio.samples.rows import ArrayRows, Rows, open_rows
from flowratio.scaling import SCALINGS
from flowratio.scaling.base import Scaler, ScalingWarning
from flowratio.scaling.discrete import DiscreteColumns, takes_noise
from flowratio.training.loop import Prepare, train
from flowratio.training.run import Callback, History, Recipe

_FLOATS: Any = [np.float64, np.float32]  # other types become the first
_CHUNK_VALUES = 1 << 18  # values of x that are mapped at a time
_SCALING_ROWS = 200_000  # rows of a file that the scaling is fitted to
_MAX_HELD_OUT = 20_000


class FlowFeaturizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Learn an invertible map from x to a standard Gaussian z, the latent space: the scaling s, then the flow f.

    .. math:: z = f(s(x)), \qquad \log p(x) = \log p_Z(z) + \log|\det \partial f| + \log|\det \partial s|

    An invertible map does not change a density ratio: r(x) = p(x) / q(x) = p_Z(z) / q_Z(z). Fit it to rows of p and q
    together, then estimate the ratio in latent space (z).

    Parameters
    ----------
    flow
        A name (`"maf"`, `"coupling"`, `"spline"`, `"spline-coupling"`), a function from the number of columns to a
        flow, or a pretrained flow of flowratio, zuko, nflows or normflows, which is not trained. A function with an
        argument `generator`, such as `MAF`, gets a seeded `torch.Generator`.
    n_blocks, hidden
        Number of blocks of a named flow, and widths of the hidden layers of each block. None chooses from the data.
    scaling
        The map before the flow: `"standard"`, `"gaussian"` (each column to a Gaussian shape), `"white"` (only clearly
        non-Gaussian columns to a Gaussian shape, then correlations removed), `"image"` (integers 0…255), `"none"`, or
        a scaler. `"auto"` is `"none"` before a pretrained flow and `"white"` otherwise.
    dequantize
        Whether `fit` adds uniform noise to discrete columns (2 to 100 values, on average 5 rows or more for each),
        because their likelihood has no maximum. The density at a value times the width of its cell, from midpoint to
        midpoint, is its probability, and `sample` returns values of the data. Pretrained flows and scalers with a
        `Dequantizer` or a `Logit` get no noise.
    max_epochs, batch_size, learning_rate, weight_decay, patience, recipe
        Settings of the training. Values that are not None replace those of the `recipe`. Without a recipe, None chooses
        from the data: see `flowratio.latent.defaults`.
    validation_fraction
        Share of the rows held out to decide when to stop.
    random_state, device, verbose
        Seed, device of torch (`"auto"` is a GPU if there is one), and whether to show a progress bar. The same seed
        gives the same results, to the last bit, on the same machine. Global generators are never used.
    checkpoint, callback
        `checkpoint` is a folder that stores the state of the training. A killed run resumes from it, and gives the same
        bits. `callback` is called after each evaluation with the flow and the number of epochs. It is not saved.

    Attributes
    ----------
    flow_, scaler_
        The fitted flow and the fitted scaler.
    discrete_
        The discrete columns, or None. In a file they are detected from a sample of 200 000 rows.
    history_
        The losses by epoch, with `plot`. None for a pretrained flow.

    References
    ----------
    .. [1] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI.

    Examples
    --------
    >>> X = np.exp(np.random.default_rng(0).normal(size=(500, 2)))
    >>> featurizer = FlowFeaturizer(max_epochs=20, random_state=0).fit(X)
    >>> Z = featurizer.transform(X)
    >>> bool(np.allclose(featurizer.inverse_transform(Z), X, rtol=1e-3))
    True
    """

    discrete_: DiscreteColumns | None = None
    history_: History | None

    def __init__(
        self,
        flow: str | Callable[..., nn.Module] | nn.Module = "maf",
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
        recipe: Recipe | None = None,
        validation_fraction: float = 0.1,
        random_state: RandomState = None,
        device: str = "auto",
        verbose: bool = False,
        checkpoint: str | Path | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.flow, self.n_blocks, self.hidden = flow, n_blocks, hidden
        self.scaling, self.dequantize = scaling, dequantize
        self.max_epochs, self.batch_size, self.learning_rate = max_epochs, batch_size, learning_rate
        self.weight_decay, self.patience, self.recipe = weight_decay, patience, recipe
        self.validation_fraction, self.random_state = validation_fraction, random_state
        self.device, self.verbose, self.checkpoint, self.callback = device, verbose, checkpoint, callback

    def fit(self, X: TableLike | str | Path | Rows, y: Any = None) -> Self:
        """Fit the scaling, then the flow. `y` is ignored.

        X has the rows of p and q together, of shape (n, d). It can also be the path of a `.npy` or `.parquet` file,
        which is read in blocks, or `Rows`, for which there is no warning about the scaling.
        """
        if y is not None and getattr(y, "ndim", 1) == 2 and y.shape[1] > 1:
            raise ArgumentError("y", "`y` looks like a second sample. Stack both first: `X, y = stack(X_p, X_q)`.")
        with unchanged_on_failure(self):
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        rows, seed = self._begin(X, self.dequantize)
        if not isinstance(self.flow, nn.Module):
            self.history_ = self._train(rows, seed)

    def initialize(self, X: TableLike | str | Path | Rows) -> Self:
        """Fit the scaling to rows as in `fit`, and draw the first weights of the flow, without training or noise."""
        with unchanged_on_failure(self):
            self._begin(X, dequantize=False)
        return self

    def _begin(self, X: Any, dequantize: bool) -> tuple[Rows, int]:
        """Set the discrete columns, the scaler and the flow. Return the rows and the seed."""
        self._check_settings()
        rows, seed = self._open(X), seed_from(self.random_state)
        rng = np.random.default_rng([seed, 0, 1])
        sample = next(rows.blocks(rows.n_rows)) if type(rows) is ArrayRows else rows.sample(_SCALING_ROWS, rng)
        scaler, self.discrete_, self.history_ = self._new_scaler(), None, None
        if dequantize and not isinstance(self.flow, nn.Module) and takes_noise(scaler):
            self.discrete_, sample = DiscreteColumns.spread(sample, np.random.default_rng([seed, 0, 4]))
        self.scaler_ = scaler.fit_array(sample, rows.feature_names)
        d = self._n_features_out = self.scaler_.n_features_out_
        if d == rows.n_features or not isinstance(X, Rows):  # a ratio does not need the columns that are left out
            self._warn_of_scaling(rows)
        self.flow_ = self._new_flow(d, rows.n_rows, seed).to(choose_device(self.device)).eval()
        if self.flow_.n_features != d:
            after = "" if d == rows.n_features else " after scaling"
            message = f"`flow` maps {self.flow_.n_features} columns, but the data have {d}{after}. Use a flow for {d}."
            raise ArgumentError("flow", message)
        return rows, seed

    def _check_settings(self) -> None:
        validation.check_training_settings(self, counts=("n_blocks",))
        if self.recipe is not None and not isinstance(self.recipe, Recipe):
            raise ArgumentError("recipe", f"`recipe` is {self.recipe!r}. Use a `flowratio.Recipe` or None.")
        if self.checkpoint is not None and not isinstance(self.random_state, numbers.Integral):
            message = f"`random_state` is {self.random_state!r}, but `checkpoint` needs a fixed seed. Use an integer."
            raise ArgumentError("random_state", message)

    def _open(self, X: Any) -> Rows:
        if isinstance(X, str | Path | Rows):
            rows = X if isinstance(X, Rows) else open_rows(X)
            if rows.n_rows < 2:
                name = "`X`" if isinstance(X, Rows) else X
                raise ArgumentError("X", f"{name} has {rows.n_rows} row. Use at least 2 rows.")
            self.n_features_in_ = rows.n_features
            vars(self).pop("feature_names_in_", None)
            if rows.feature_names is not None:
                self.feature_names_in_ = np.array(rows.feature_names, dtype=object)
            return rows
        X = validate_data(self, X, dtype=_FLOATS, ensure_min_samples=2)
        return ArrayRows(X, list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None)

    def _new_scaler(self) -> Scaler:
        if isinstance(self.scaling, Scaler):
            return cast(Scaler, clone(self.scaling))
        if self.scaling not in ("auto", *SCALINGS):
            rule = f"Use a scaler, or one of auto, {', '.join(SCALINGS)}."
            raise ArgumentError("scaling", f"`scaling` is {self.scaling!r}. {rule}")
        auto = "none" if isinstance(self.flow, nn.Module) else "white"
        return SCALINGS[auto if self.scaling == "auto" else self.scaling]()

    def _warn_of_scaling(self, rows: Rows) -> None:
        """Warn about columns that the scaler left out, and about rows of a large file that contradict this."""
        messages = [self.scaler_.fit_message(rows.feature_names)]
        if rows.n_rows > _SCALING_ROWS and not isinstance(rows, ArrayRows) and self.discrete_ is None:
            messages.append(self.scaler_.off_plane_message(rows.blocks(_SCALING_ROWS)))
        for message in filter(None, messages):
            warnings.warn(message, ScalingWarning, stacklevel=5)  # the caller of `fit`

    def _new_flow(self, d: int, n: int, seed: int) -> Flow:
        if isinstance(self.flow, nn.Module):
            return adapt(deepcopy(self.flow))  # the user's flow stays on its device and in its mode
        generator = torch.Generator().manual_seed(seed)
        if callable(self.flow):
            if "generator" in inspect.signature(self.flow).parameters:
                return adapt(self.flow(d, generator=generator))
            with seeded(seed, torch.device("cpu")):  # other libraries draw weights from the global generator
                return adapt(self.flow(d))
        if self.flow not in FLOWS:
            rule = f"Use a flow, a function, or one of {', '.join(FLOWS)}."
            raise ArgumentError("flow", f"`flow` is {self.flow!r}. {rule}")
        new: Any = FLOWS[self.flow]
        n_blocks = {} if self.n_blocks is None else {"n_blocks": self.n_blocks}
        return new(d, hidden=self.hidden or hidden_widths(n, d), generator=generator, **n_blocks)

    def recipe_for(self, n: int, d: int) -> Recipe:
        """Return the settings of the training for n rows and d columns."""
        names = ("max_epochs", "batch_size", "learning_rate", "weight_decay", "patience")
        settings: dict[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(self.recipe, **settings) if self.recipe else default_recipe(n, d, self.hidden, settings)

    def _train(self, rows: Rows, seed: int) -> History:
        n = rows.n_rows
        n_held_out = min(max(round(self.validation_fraction * n), min(64, n // 4), 1), _MAX_HELD_OUT, n - 1)
        prepare: Prepare | None = self._prepare
        if isinstance(rows, ArrayRows) and not self.scaler_.stochastic and self.discrete_ is None:
            rows, prepare = rows.mapped(self.scaled(rows.X)), None
        rest, held_out = rows.split(n_held_out, np.random.default_rng([seed, 0, 2]))
        recipe = self.recipe_for(rest.n_rows, self._n_features_out)
        options: dict[str, Any] = {"prepare": prepare, "verbose": self.verbose}
        options |= {"checkpoint": self.checkpoint, "callback": self.callback}
        return train(self.flow_, lambda x: -self.flow_.log_prob(x).mean(), rest, held_out, recipe, seed=seed, **options)

    def _prepare(self, X: Matrix, rng: np.random.Generator) -> Matrix:  # with new noise in every epoch
        X = X if self.discrete_ is None else self.discrete_.jitter(X, rng)
        return self.scaler_.forward(X, rng)[0].astype(np.float32)

    def scaled(self, X: Matrix) -> Matrix:
        """Scale rows in memory, (n, d) to (n, d_z), in float32."""
        Z = np.empty((len(X), self._n_features_out), np.float32)
        for part in chunks(len(X), X.shape[1], _CHUNK_VALUES):
            Z[part] = self.scaler_.forward(X[part])[0]
        return Z

    def transform(self, X: TableLike) -> Matrix:
        """Map x to z: (n, d) to (n, d_z), in float32 for float32 rows and in float64 for others."""
        return self.encode(self._checked(X))

    def encode(self, X: Matrix, rng: np.random.Generator | None = None) -> Matrix:
        """Map a checked matrix of x to z, (n, d) to (n, d_z). `rng` draws the noise of a scaling such as `"image"`."""
        Z = np.empty((len(X), self._n_features_out), np.float32 if X.dtype == np.float32 else np.float64)
        for part, z, _ in self._mapped(X, rng):
            Z[part] = z.cpu().numpy()
        return Z

    def score_samples(self, X: TableLike) -> Vector:
        """Return the log-density of rows of x in nats, (n, d) to (n,)."""
        return self.log_density(self._checked(X))

    @torch.no_grad()
    def log_density(self, X: Matrix) -> Vector:
        """Return the log-density of a checked matrix of x in nats, (n, d) to (n,)."""
        log_p = np.empty(len(X))
        for part, z, log_det in self._mapped(X):
            log_p[part] = self.flow_.base_log_prob(z).cpu().double().numpy() + log_det
        return log_p

    def score(self, X: TableLike, y: Any = None) -> float:
        """Return the mean log-density of rows of x in nats. `y` is ignored."""
        return float(self.score_samples(X).mean())

    def _checked(self, X: Any) -> Matrix:
        check_is_fitted(self)
        if isinstance(X, str | Path):
            raise ArgumentError("X", f"`X` is the path {X}. Only `fit` reads files. Use rows of the file.")
        rows = np.asarray(validate_data(self, X, dtype=_FLOATS, reset=False))
        parts = (rows[part] for part in chunks(len(rows), rows.shape[1], _CHUNK_VALUES))
        if message := self.scaler_.off_plane_message(parts):
            warnings.warn(message, ScalingWarning, stacklevel=3)
        return rows

    @torch.no_grad()
    def _mapped(self, X: Matrix, rng: np.random.Generator | None = None) -> Iterator[tuple[slice, Tensor, Vector]]:
        """Yield for each chunk of rows its slice, its z, and the log-determinant of x → z."""
        kind = like(self.flow_)
        for part in chunks(len(X), X.shape[1], _CHUNK_VALUES):
            scaled, log_det = self.scaler_.forward(X[part], rng)
            z, flow_log_det = self.flow_(torch.tensor(scaled, dtype=kind.dtype, device=kind.device))
            yield part, z, log_det + flow_log_det.cpu().double().numpy()

    @torch.no_grad()
    def inverse_transform(self, Z: TableLike) -> Matrix:
        """Map z to x: (n, d_z) to (n, d)."""
        check_is_fitted(self)
        Z = np.asarray(check_array(Z, dtype=_FLOATS))
        if Z.shape[1] != self._n_features_out:
            rule = f"the latent space has {self._n_features_out}. Use rows of z, such as those of `transform`"
            raise ValueError(f"`Z` has {Z.shape[1]} columns, but {rule}.")
        kind, X = like(self.flow_), np.empty((len(Z), self.n_features_in_), Z.dtype)
        for part in chunks(len(Z), self.n_features_in_, _CHUNK_VALUES):
            z = torch.tensor(Z[part], dtype=kind.dtype, device=kind.device)
            X[part] = self.scaler_.inverse(self.flow_.inverse(z)[0].cpu().double().numpy())[0]
        return X

    def decode(self, Z: Matrix) -> Matrix:
        """Map z to x like `inverse_transform`, with discrete columns rounded to the nearest of their values."""
        X = self.inverse_transform(Z)
        return X if self.discrete_ is None else self.discrete_.snap(X)

    def sample(self, n: int = 1, random_state: int | np.random.Generator | None = None) -> Matrix:
        """Draw rows of x from the fitted density, of shape (n, d). Without a seed, every call gives other rows."""
        check_is_fitted(self)
        check_count(n, "n")
        generator = torch.Generator().manual_seed(seed_from(random_state))
        return self.decode(self.flow_.base_sample(n, generator).detach().cpu().double().numpy())
