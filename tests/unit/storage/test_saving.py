from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import zuko
from safetensors import torch as safetensors
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from flowratio import (
    MAF,
    ClassifierRatio,
    Dequantizer,
    FlowFeaturizer,
    Gaussianizer,
    Logit,
    ScalerChain,
    Standardizer,
    load,
    save,
)
from flowratio.flows import FLOWS
from flowratio.ratios.neural.networks import CNN, MLP, Network
from flowratio.scaling.base import Scaler
from flowratio.storage.boosted_trees import BoostedTrees
from flowratio.storage.sklearn_models import LEARNERS

# two epochs are enough to have a state that is not the initial one
pytestmark = pytest.mark.filterwarnings("ignore:Training ended at:sklearn.exceptions.ConvergenceWarning")

SCALERS: dict[str, Callable[[], Scaler]] = {
    "standardizer": Standardizer,
    "gaussianizer": lambda: Gaussianizer(n_knots=6),
    "dequantizer": lambda: Dequantizer(levels=8),
    "logit": lambda: ScalerChain([Dequantizer(levels=8), Logit(lam=1e-3)]),
    "chain": lambda: ScalerChain([Dequantizer(levels=8), Logit(), Standardizer()]),
}


def rows(d: int = 2, n: int = 60) -> np.ndarray:
    return np.random.default_rng(d).normal(size=(n, d))


def small_flow(d: int = 2, seed: int = 0) -> MAF:
    return MAF(d, n_blocks=1, hidden=(4,), generator=torch.Generator().manual_seed(seed))


def small_model(seed: int = 0) -> FlowFeaturizer:
    """Return a fitted model that needed no training."""
    return FlowFeaturizer(flow=small_flow(seed=seed), scaling="standard").fit(rows())


def check_same_bits(a: FlowFeaturizer, b: FlowFeaturizer, X: Any) -> None:
    Z = np.asarray(a.transform(X))
    np.testing.assert_array_equal(np.asarray(b.transform(X)), Z)
    np.testing.assert_array_equal(b.score_samples(X), a.score_samples(X))
    np.testing.assert_array_equal(b.inverse_transform(Z), a.inverse_transform(Z))
    np.testing.assert_array_equal(b.sample(7, random_state=1), a.sample(7, random_state=1))


def check_same(a: Any, b: Any) -> None:
    """Compare by type and, to the bit, by value."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        check_same(list(a.values()), list(b.values()))
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            check_same(x, y)
    elif isinstance(a, np.ndarray | np.generic) and a.dtype.kind != "O":
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    elif isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    else:
        assert repr(a) == repr(b)  # tells nan and -0.0 from others


def tensor_file(folder: Path) -> Path:
    (path,) = folder.glob("tensors-*")
    return path


def forge(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change `model.json` and give it the digest that fits, as someone with bad intent would."""
    path = folder / "model.json"
    document = json.loads(path.read_text())
    del document["sha256"]
    change(document)
    body = json.dumps(document, indent=1) + "\n"
    document["sha256"] = hashlib.sha256(body.encode()).hexdigest()
    path.write_text(json.dumps(document, indent=1) + "\n")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save(small_model(), tmp_path / "model")
    return tmp_path / "model"


# What comes back


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("name", FLOWS)
def test_every_flow_comes_back_to_the_bit(name: str, d: int, tmp_path: Path) -> None:
    X = rows(d)
    model = FlowFeaturizer(name, n_blocks=2, hidden=[5, 5], max_epochs=2, random_state=0).fit(X)
    save(model, tmp_path)
    loaded = load(tmp_path)
    check_same_bits(model, loaded, X)
    assert repr(loaded) == repr(model)
    assert loaded.history_ == model.history_
    assert list(vars(loaded)) == list(vars(model))


@pytest.mark.parametrize("name", SCALERS)
@pytest.mark.filterwarnings("ignore::flowratio.scaling.base.ScalingWarning")
def test_every_scaler_comes_back_to_the_bit(name: str, tmp_path: Path) -> None:
    X = np.random.default_rng(0).integers(0, 8, size=(50, 3)).astype(float)
    X = np.column_stack([X, X[:, 0], np.full(50, 3.0)])  # one column that another tells, and a constant one
    scaler = SCALERS[name]().fit(X)
    save(scaler, tmp_path)
    loaded = load(tmp_path)
    Z, log_det = scaler.forward(X)
    np.testing.assert_array_equal(loaded.forward(X)[0], Z)
    np.testing.assert_array_equal(loaded.forward(X)[1], log_det)
    np.testing.assert_array_equal(loaded.inverse(Z)[0], scaler.inverse(Z)[0])
    assert repr(loaded) == repr(scaler)


@pytest.mark.parametrize("scaling", ["gaussian", "image", Gaussianizer(n_knots=5)])
def test_featurizer_with_each_scaling(scaling: Any, tmp_path: Path) -> None:
    X = np.random.default_rng(0).integers(0, 256, size=(40, 2)).astype(float)
    model = FlowFeaturizer(scaling=scaling, hidden=[4], max_epochs=1, random_state=0).fit(X)
    save(model, tmp_path)
    check_same_bits(model, load(tmp_path), X)


def test_names_of_a_data_frame_and_set_output(tmp_path: Path) -> None:
    X = pd.DataFrame(rows(), columns=["Größe", "weight (kg)"])
    model = small_model().set_output(transform="pandas").fit(X)
    save(model, tmp_path)
    loaded = load(tmp_path)
    pd.testing.assert_frame_equal(loaded.transform(X), model.transform(X))
    check_same(loaded.feature_names_in_.tolist(), X.columns.tolist())
    with pytest.raises(ValueError, match="same order"):
        loaded.transform(X[X.columns[::-1]])


def test_every_kind_of_value(tmp_path: Path) -> None:
    values = {
        "plain": [None, True, False, 0, -(10**30), 0.1, -0.0, 1e-300, "", 'a"\n\u2028é', "\ud800 alone"],
        "not finite": [float("nan"), float("inf"), float("-inf")],
        "nested": ([1, (2, [3])], {}, {"": {"x": ()}}, []),
        "numbers": [np.float64(0.1), np.float32(0.1), np.float16("nan"), np.int8(-3), np.uint64(2**64 - 1), np.True_],
        "arrays": [rows(), np.zeros((0, 3)), np.array(2.5, np.float32), np.array([True, False]), np.arange(5)[::2]],
        "strings": [np.array(["a", "bcd"]), np.array([["a"], ["é"]], dtype=object), np.array([], dtype=object)],
        "tensors": [torch.arange(6).view(2, 3).T, torch.ones(3, dtype=torch.bfloat16), torch.tensor(1.5)],
        "others": [np.dtype("float32"), Path("some/folder")],
        "a": {"b": rows(1)},
        "a.b": rows(4),  # two paths that look alike
    }
    scaler = Standardizer().fit(rows())
    vars(scaler)["values_"] = values
    save(scaler, tmp_path)
    check_same(load(tmp_path).values_, values)


def test_order_in_memory_is_kept(tmp_path: Path) -> None:
    scaler = Standardizer().fit(rows())
    vars(scaler).update(f_=np.asfortranarray(rows(3)), big_endian_=np.arange(3, dtype=">i4"))
    save(scaler, tmp_path)
    loaded = load(tmp_path)
    assert loaded.f_.flags.f_contiguous
    np.testing.assert_array_equal(loaded.f_, rows(3))
    np.testing.assert_array_equal(loaded.big_endian_, np.arange(3))


@pytest.mark.parametrize("flow", [lambda d: small_flow(d), MAF])
def test_setting_that_is_code_comes_back_as_what_it_made(flow: Callable[[int], MAF], tmp_path: Path) -> None:
    model = FlowFeaturizer(flow, max_epochs=1, random_state=0).fit(rows())
    save(model, tmp_path)
    loaded = load(tmp_path)
    assert loaded.flow is loaded.flow_
    check_same_bits(model, loaded, rows())
    assert "flow=MAF(" in repr(loaded)
    copy: Any = clone(loaded)
    np.testing.assert_array_equal(
        copy.set_params(scaling="standard").fit(rows()).transform(rows()), model.transform(rows())
    )


def test_pretrained_flow_is_saved_once(tmp_path: Path) -> None:
    save(small_flow(), tmp_path / "flow")
    save(small_model(), tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.flow is loaded.flow_
    names = safetensor_names(tensor_file(tmp_path / "model"))
    assert sum("theta" in name for name in names) == len(safetensor_names(tensor_file(tmp_path / "flow"))) == 1


def safetensor_names(path: Path) -> list[str]:
    raw = path.read_bytes()  # eight bytes with the length of a JSON header, and the header
    return list(json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")]))


@pytest.mark.parametrize("stream", [np.random.default_rng(0), np.random.RandomState(0)])
def test_generator_as_random_state_comes_back_as_none(stream: Any, tmp_path: Path) -> None:
    model = small_model().set_params(random_state=stream)
    save(model, tmp_path)
    assert load(tmp_path).random_state is None
    assert model.random_state is stream


def test_flow_alone_with_batch_norm_in_float64(tmp_path: Path) -> None:
    flow = MAF(3, n_blocks=2, hidden=(6,), batch_norm=True, generator=torch.Generator().manual_seed(0)).double()
    x = torch.from_numpy(rows(3))
    flow(x)  # moves the running statistics
    save(flow.eval(), tmp_path)
    before = torch.random.get_rng_state()
    loaded = load(tmp_path)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not loaded.training
    for ours, theirs in zip(flow(x), loaded(x), strict=True):
        assert ours.dtype == torch.float64
        assert torch.equal(ours, theirs)


def test_model_of_a_device_that_is_not_here(tmp_path: Path) -> None:
    model = small_model()
    model.device = "cuda:77"
    save(model, tmp_path)
    loaded = load(tmp_path)
    assert loaded.device == "cuda:77"
    check_same_bits(model, loaded, rows())


def test_setting_of_a_later_version_has_its_default(saved: Path) -> None:
    forge(saved, lambda document: document["model"]["state"].pop("validation_fraction"))
    assert load(saved).validation_fraction == 0.1


@pytest.mark.parametrize("network", [MLP(4, (5, 3), 2), CNN((1, 2, 2), (3,))], ids=type)
def test_network_of_a_ratio(network: Network, tmp_path: Path) -> None:
    scaler, x = Standardizer().fit(rows()), torch.from_numpy(rows(4)).float()
    network(x)  # moves the running statistics of the batch norm
    vars(scaler)["network_"] = network.eval()
    save(scaler, tmp_path)
    loaded = load(tmp_path).network_
    assert type(loaded) is type(network)
    assert not loaded.training
    assert torch.equal(loaded(x), network(x))


# Estimators of scikit-learn

# their types are guessed from their defaults, and are wider
boosting: Any = HistGradientBoostingClassifier
neighbours: Any = KNeighborsClassifier
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(C=0.3),
    "quadratic": lambda: make_pipeline(StandardScaler(), PolynomialFeatures(2), LogisticRegression()),
    "bayes": GaussianNB,
    "linear discriminant": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "quadratic discriminant": lambda: QuadraticDiscriminantAnalysis(reg_param=0.1),
    "neighbours": lambda: KNeighborsClassifier(7, weights="distance"),
    "neighbours without a tree": lambda: KNeighborsClassifier(3, algorithm="brute", metric="cosine"),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=3),
    "boosting that stops": lambda: boosting(early_stopping=True, scoring="accuracy"),
    "one tree": lambda: HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=1000),
}


def labels(X: np.ndarray) -> np.ndarray:
    return np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, "p", "q")


def test_every_learner_is_saved_in_some_test() -> None:
    models = [make() for make in CLASSIFIERS.values()]
    steps = [step for model in models if hasattr(model, "steps") for _, step in model.steps]
    names = {type(model).__name__ for model in [*models, *steps]}
    assert names | {"IsotonicRegression"} == set(LEARNERS)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_comes_back_to_the_bit(name: str, tmp_path: Path) -> None:
    X, X_new = rows(3, 200), rows(3, 333) * 2
    model = CLASSIFIERS[name]().fit(X, labels(X))
    save(model, tmp_path)
    loaded = load(tmp_path)
    assert repr(loaded.classifier if isinstance(loaded, BoostedTrees) else loaded) == repr(model)
    np.testing.assert_array_equal(loaded.classes_, model.classes_)
    np.testing.assert_array_equal(loaded.predict_proba(X_new), model.predict_proba(X_new))
    if hasattr(model, "decision_function"):
        np.testing.assert_array_equal(loaded.decision_function(X_new), model.decision_function(X_new))
    again: Any = clone(loaded)
    np.testing.assert_array_equal(again.fit(X, labels(X)).classes_, model.classes_)


def test_isotonic_regression_comes_back_to_the_bit(tmp_path: Path) -> None:
    x = rows(1, 80).ravel()
    model = IsotonicRegression(out_of_bounds="clip").fit(x, x + np.sin(9 * x))
    save(model, tmp_path)
    new = np.linspace(-5, 5, 201)
    np.testing.assert_array_equal(load(tmp_path).predict(new), model.predict(new))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_unfitted_classifier_as_a_setting(name: str, tmp_path: Path) -> None:
    scaler = Standardizer().fit(rows())
    vars(scaler)["classifier"] = CLASSIFIERS[name]()
    save(scaler, tmp_path)
    loaded = load(tmp_path).classifier
    assert repr(loaded) == repr(CLASSIFIERS[name]())
    with pytest.raises(NotFittedError):
        loaded.predict(rows())


def test_path_in_a_pipeline(tmp_path: Path) -> None:
    X = rows(2, 200)
    pipeline = make_pipeline(small_model(), LogisticRegression()).fit(X, labels(X))
    save(pipeline, tmp_path)
    np.testing.assert_array_equal(load(tmp_path).decision_function(X), pipeline.decision_function(X))


def test_other_version_of_scikit_learn_is_said(tmp_path: Path) -> None:
    X = rows(2, 100)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, labels(X))
    save(model, tmp_path)
    document = json.loads((tmp_path / "model.json").read_text())
    here = document["model"]["scikit-learn"]
    patch_level = ".".join([*here.split(".")[:2], "999"])
    forge(tmp_path, lambda document: document["model"].update({"scikit-learn": patch_level}))
    load(tmp_path)  # no warning: numbers do not change with the last digit
    forge(tmp_path, lambda document: document["model"].update({"scikit-learn": "0.9.1"}))
    with pytest.warns(
        UserWarning, match=rf"parts of scikit-learn 0\.9\.1, but this is {here}.*Fit and save"
    ) as records:
        load(tmp_path)
    assert len(records) == 1
    assert records[0].filename == __file__


def grow(model: Any) -> Any:
    X = rows(2, 200)
    return model.fit(X, labels(X))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (RandomForestClassifier(2), "RandomForestClassifier, which cannot be saved.*LogisticRegression, Pipeline"),
        (
            make_pipeline(StandardScaler(), RandomForestClassifier(2)),
            "`model.steps.1.1` is a .*RandomForest",
        ),
        (make_pipeline(StandardScaler(), LogisticRegression(), memory="cache"), "`model` is a Pipeline with a cache"),
        (boosting(max_iter=1, categorical_features=[0]), "is boosting with categories"),
        (neighbours(metric=lambda a, b: float(abs(a - b).sum())), "`model.metric` is code"),
        (neighbours(weights=np.exp), "`model.weights` is code"),
    ],
    ids=["forest", "forest in a pipeline", "cache", "categories", "metric", "weights"],
)
def test_estimators_that_cannot_be_saved(model: Any, words: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)  # for the cache
    X = np.abs(rows(2, 50)).round()
    with pytest.raises(TypeError, match=words):
        save(model.fit(X, X[:, 1] > 0), tmp_path / "model")
    assert not (tmp_path / "model").exists()


# What is refused at saving


def test_model_that_is_not_fitted(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        save(FlowFeaturizer(), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_flow_of_another_package(tmp_path: Path) -> None:
    model = FlowFeaturizer(zuko.flows.MAF(features=2, transforms=1, hidden_features=(4,)), scaling="standard").fit(
        rows()
    )
    with pytest.raises(
        TypeError, match=r"`model.flow_` is a flow of zuko.*Train a flow of flowratio, or save the flow"
    ):
        save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


class Derived(Standardizer):
    """A class that is not flowratio's own."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (len, "is code"),
        (object(), "builtins.object"),
        ({1: "a"}, "builtins.dict"),
        ({1, 2}, "builtins.set"),
        (np.array([1 + 2j]), "complex128"),
        (np.array([1, "a"], dtype=object), "object"),
        (np.ma.masked_array([1.0], [True]), "MaskedArray"),
        (np.datetime64("2020-01-01"), "datetime64"),
        (torch.zeros(2, 2).to_sparse(), "sparse"),
        (torch.nn.Linear(1, 1), "cannot be saved. Use a class of flowratio"),
        (LinearRegression(), "cannot be saved. Use a class of flowratio"),
        (Derived(), "cannot be saved. Use a class of flowratio"),
        (MAF, "is code"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_values_that_cannot_be_saved(value: Any, words: str, tmp_path: Path) -> None:
    scaler = Standardizer().fit(rows())
    vars(scaler)["extra_"] = [value]
    with pytest.raises(TypeError, match=f"`model.extra_.0` .*{words}"):
        save(scaler, tmp_path / "model")
    assert not (tmp_path / "model").exists()


# Old or new, never half


def test_new_model_replaces_the_old_and_all_its_files(saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    (saved / "tensors-mine.safetensors").write_text("mine")
    for left in (".0123abcd.model.json", ".0123abcd.tensors-0123456789abcdef.safetensors"):
        (saved / left).write_text("by a save that was killed")
    model = small_model(seed=1)
    save(model, saved)
    check_same_bits(model, load(saved), rows())
    others = {"model.json", "notes.txt", "tensors-mine.safetensors"}
    names = {path.name for path in saved.iterdir()}
    assert names == others | {json.loads((saved / "model.json").read_text())["tensors"]["file"]}


def fail_at(monkeypatch: pytest.MonkeyPatch, call: int, error: BaseException) -> None:
    """Let one of the calls that change a folder fail, the first of them being call 0."""
    n_calls = 0

    def failing(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any) -> Any:
            nonlocal n_calls
            n_calls += 1
            if n_calls == call + 1:
                raise error
            return function(*args)

        return wrapped

    monkeypatch.setattr(Path, "write_bytes", failing(Path.write_bytes))
    monkeypatch.setattr(os, "replace", failing(os.replace))


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", range(4))  # write and rename the tensors, write and rename `model.json`
def test_failed_save_leaves_the_old_model_whole(
    call: int, error: BaseException, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = load(saved), small_model(seed=1)
    with monkeypatch.context() as patch:
        fail_at(patch, call, error)
        with pytest.raises(type(error)) as failure:
            save(new, saved)
    assert isinstance(error, KeyboardInterrupt) or "Free some space" in str(failure.value)
    check_same_bits(old, load(saved), rows())
    save(new, saved)
    check_same_bits(new, load(saved), rows())
    assert len(list(saved.iterdir())) == 2


def test_old_tensors_that_cannot_be_removed_do_no_harm(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    save(small_model(seed=1), saved)
    assert len(list(saved.iterdir())) == 3
    check_same_bits(small_model(seed=1), load(saved), rows())


@pytest.mark.parametrize("folder", ["file", "file/model"])
def test_folder_that_cannot_be_made(folder: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match=r"Cannot create the folder .*\. Choose another one"):
        save(small_model(), tmp_path / folder)
    assert (tmp_path / "file").read_text() == "mine"


def test_foreign_model_json_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"mine": 1}')
    with pytest.raises(FileExistsError, match="not a model of flowratio"):
        save(small_model(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


# What is refused at loading


def test_paths_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(NotADirectoryError, match="is a file"):
        load(tmp_path / "file")
    with pytest.raises(FileNotFoundError, match=r"has no file model\.json"):
        load(tmp_path)


def test_missing_tensor_file(saved: Path) -> None:
    tensor_file(saved).unlink()
    with pytest.raises(FileNotFoundError, match=r"tensors-\w+\.safetensors is missing"):
        load(saved)


@pytest.mark.parametrize("name", ["model.json", "tensors"])
def test_truncated_anywhere(name: str, saved: Path) -> None:
    path = saved / name if name == "model.json" else tensor_file(saved)
    raw = path.read_bytes()
    for n in {*np.linspace(0, len(raw) - 1, 60).astype(int).tolist(), 1, 2, 7, 8, 9}:
        path.write_bytes(raw[:n])
        with pytest.raises(ValueError, match=f"{path.name} .*(incomplete|changed)"):
            load(saved)
    path.write_bytes(raw)
    load(saved)


@pytest.mark.parametrize("name", ["model.json", "tensors"])
def test_one_byte_changed_anywhere(name: str, saved: Path) -> None:
    path = saved / name if name == "model.json" else tensor_file(saved)
    raw = path.read_bytes()
    rng = np.random.default_rng(0)
    for i in rng.permutation(len(raw))[:300]:
        changed = bytearray(raw)
        changed[i] ^= rng.integers(1, 256)
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=str(saved)):
            load(saved)
    path.write_bytes(raw)
    load(saved)


def test_change_that_means_the_same_is_a_change(saved: Path) -> None:
    path = saved / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text())))  # other white space
    with pytest.raises(ValueError, match="was changed"):
        load(saved)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "3", "null", '{"format": "other"}', "\ufeff{}", "not JSON", "[" * 100_000, '{"a": NaN}']
)
def test_foreign_json(text: str, saved: Path) -> None:
    (saved / "model.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"model\.json is (JSON, but not a model|incomplete or not JSON|nested)"):
        load(saved)


def test_foreign_bytes(saved: Path) -> None:
    (saved / "model.json").write_bytes(np.random.default_rng(0).bytes(1000))
    with pytest.raises(ValueError, match="not JSON"):
        load(saved)


def test_tensors_of_another_model(saved: Path, tmp_path: Path) -> None:
    save(small_model(seed=1), tmp_path / "other")
    shutil.copy(tensor_file(tmp_path / "other"), tensor_file(saved))
    with pytest.raises(ValueError, match="of another model"):
        load(saved)


def test_tensor_file_that_is_none_but_has_the_right_digest(saved: Path) -> None:
    tensor_file(saved).write_bytes(b"no tensors")
    digest = hashlib.sha256(b"no tensors").hexdigest()
    forge(saved, lambda document: document["tensors"].update(sha256=digest))
    with pytest.raises(ValueError, match="cannot be read as safetensors"):
        load(saved)


@pytest.mark.parametrize(("version", "remedy"), [(1, "Fit and save the model again"), (3, "Upgrade flowratio")])
def test_other_version(version: int, remedy: str, saved: Path) -> None:
    forge(saved, lambda document: document.update(version=version, flowratio="9.0"))
    with open(saved / "model.json", "a") as file:  # the digest of another version is not checked
        file.write("\n")
    rule = r"This flowratio reads version 2\."
    with pytest.raises(ValueError, match=rf"by flowratio 9\.0 in format version {version}\. {rule} {remedy}\.$"):
        load(saved)


def test_forged_file_without_a_change_loads(saved: Path) -> None:
    # the control of the tests below: what they refuse is refused for its content
    forge(saved, lambda document: None)
    check_same_bits(small_model(), load(saved), rows())


@pytest.mark.parametrize(
    "name",
    [
        *("os.system", "builtins.eval", "eval", "this", "subprocess.Popen", "Scaler", "Flow", "Network", "save", ""),
        *("Writer", "RandomForestClassifier", "sklearn.svm.SVC", "FunctionTransformer", "TreePredictor", "_BinMapper"),
    ],
)
@pytest.mark.parametrize("kind", ["estimator", "flow", "network", "learner", "dataclass"])
def test_only_classes_of_flowratio(kind: str, name: str, saved: Path) -> None:
    node = {"kind": kind, "class": name, "scikit-learn": "1", "config": {}, "state": {}}
    forge(saved, lambda document: document["model"]["state"].update(scaler_=node))
    with pytest.raises(ValueError, match=f"asks for the {kind} '{name}', which this version"):
        load(saved)
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("estimator", "MAF"),
        ("estimator", "LogisticRegression"),
        ("flow", "History"),
        ("flow", "MLP"),
        ("network", "MAF"),
        ("learner", "Standardizer"),
        ("dataclass", "Standardizer"),
    ],
)
def test_class_of_another_kind(kind: str, name: str, saved: Path) -> None:
    node = {"kind": kind, "class": name, "scikit-learn": "1", "config": {}, "state": {}}
    forge(saved, lambda document: document["model"]["state"].update(scaler_=node))
    with pytest.raises(ValueError, match=f"asks for the {kind} '{name}'"):
        load(saved)


@pytest.mark.parametrize(
    "name", ["../other/{}", "/tmp/{}", "sub/{}", "{}\n", "tensors-x.safetensors", "model.json", ""]
)
def test_tensor_file_outside_the_folder(name: str, saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "other")
    name = name.format(tensor_file(saved).name)
    forge(saved, lambda document: document["tensors"].update(file=name))
    with pytest.raises(ValueError, match="which `save` does not write"):
        load(saved)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("flow_.config.hidden", {"kind": "tuple", "items": []}, "has arguments that MAF refuses"),
        ("flow_.config.n_features", "2", "has arguments that MAF refuses"),
        ("flow_.config.unknown", 1, "has arguments that MAF refuses"),
        ("flow_.config.n_blocks", 2, "has weights that do not fit the MAF"),
        ("flow_.state.more", [], "has weights that do not fit the MAF"),
        ("flow_.state.nets", {"kind": "tensor", "tensor": "x", "dtype": "float32", "shape": [2]}, "the tensor 'x'"),
        ("scaler_.state.mean_.shape", [3], r"float64 of shape \[3\], which is not in the tensor file"),
        ("scaler_.state.mean_.dtype", "float32", r"float32 of shape \[2\], which is not in the tensor file"),
        ("scaler_.state.mean_.kind", "pickle", "has an unknown value"),
        ("scaler_.state.mean_", {"kind": "float", "value": "1e999"}, "has an unknown value"),
        ("scaler_.state.mean_", {"kind": "dtype", "name": "object"}, "has an unknown value"),
        ("scaler_.state.mean_", {"kind": "dict", "items": []}, "has an unknown value"),
        ("scaler_.state.mean_", {}, "has an unknown value"),
        ("scaler_.state.mean_", {"kind": "strings", "dtype": "str", "shape": [2], "items": ["a"]}, "has 1 strings"),
        ("scaler_.state.mean_", {"kind": "strings", "dtype": "str", "shape": [-1], "items": []}, "has 0 strings"),
        ("scaler_.state.transform", 1, "does not have the attributes of a Standardizer"),
        ("scaler_.state.stochastic", True, "does not have the attributes of a Standardizer"),
        ("scaler_.state.__class__", 1, "does not have the attributes of a Standardizer"),
        ("flow", {"kind": "fitted", "name": "nothing_"}, "asks for 'nothing_'"),
        ("flow", {"kind": "fitted", "name": "flow"}, "asks for 'flow'"),
        ("flow", {"kind": "fitted", "name": ["flow_"]}, "which is not there"),
        ("history_", {"kind": "dataclass", "class": "History", "state": {"a": 1}}, "arguments that History refuses"),
    ],
)
def test_forged_values(path: str, value: Any, words: str, saved: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        node = document["model"]["state"]
        for name in parents:
            node = node[name]
        node[last] = value

    forge(saved, change)
    with pytest.raises(ValueError, match=words):
        load(saved)


@pytest.mark.parametrize("node", [{}, {"kind": "tuple", "items": []}, {"kind": "path", "value": "x"}, [], None])
def test_forged_file_without_a_model(node: Any, saved: Path) -> None:
    forge(saved, lambda document: document.update(model=node))
    with pytest.raises(ValueError, match=r"has no estimator and no flow|was changed"):
        load(saved)


def test_depth_that_the_parser_takes(saved: Path) -> None:
    head = (
        '{"format": "flowratio", "version": 2, "flowratio": "1", "tensors": {"file": "", "sha256": ""}, "model": {"a":'
    )
    (saved / "model.json").write_text(f"{head} {'[' * 900}{']' * 900}}}}}")
    with pytest.raises(ValueError, match=r"is nested too deeply|was changed"):
        load(saved)


# Forged estimators of scikit-learn


def forge_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change arrays in place, and give the file and `model.json` the digests that fit."""
    path = tensor_file(folder)
    tensors = safetensors.load(path.read_bytes())
    change(tensors)
    data = safetensors.save(tensors)
    path.write_bytes(data)
    forge(folder, lambda document: document["tensors"].update(sha256=hashlib.sha256(data).hexdigest()))


@pytest.fixture
def boosted(tmp_path: Path) -> Path:
    save(grow(HistGradientBoostingClassifier(max_iter=4)), tmp_path / "boosted")
    return tmp_path / "boosted"


def set_item(name: str, value: int) -> Callable[[dict[str, torch.Tensor]], object]:
    """Change the root of the first tree, or the size of the first tree."""
    key = "model.sizes_" if name == "sizes" else f"model.nodes_.{name}"
    return lambda tensors: tensors[key].view(-1)[0:1].fill_(value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("left", 0, "lead nowhere"),  # a walk without an end
        ("left", 10**6, "lead nowhere"),  # beyond the nodes
        ("right", 0, "lead nowhere"),
        ("right", 2**32 - 1, "lead nowhere"),
        ("feature", 2, "lead nowhere"),  # beyond the columns
        ("feature", -1, "lead nowhere"),
        ("sizes", 0, "without nodes"),
        ("sizes", 1, "another number of nodes"),
        ("sizes", -1, "without nodes"),
        ("sizes", 2**62, "another number of nodes"),
    ],
)
def test_forged_trees(name: str, value: int, words: str, boosted: Path) -> None:
    forge_tensors(boosted, set_item(name, value))
    with pytest.raises(ValueError, match=f"BoostedTrees that cannot be rebuilt .*({words})"):
        load(boosted)


def test_forged_sizes_that_overflow_to_the_right_sum(boosted: Path) -> None:
    # four trees with 2⁶² nodes more each: 2⁶⁴ of them are 0 in 64 bits
    forge_tensors(boosted, lambda tensors: tensors["model.sizes_"].add_(2**62))
    with pytest.raises(ValueError, match="another number of nodes"):
        load(boosted)


FORGED: list[tuple[Any, str, Any, str]] = [
    (HistGradientBoostingClassifier(max_iter=1), "n_features_in_", None, "without a number of columns"),
    (HistGradientBoostingClassifier(max_iter=1), "n_features_in_", 1, "lead nowhere"),
    (HistGradientBoostingClassifier(max_iter=1), "_in_fit", True, "other attributes than those of trees"),
    (HistGradientBoostingClassifier(max_iter=1), "_preprocessor", 1, "other attributes than those of trees"),
    (HistGradientBoostingClassifier(max_iter=1), "nodes_", [], "without nodes"),
    (HistGradientBoostingClassifier(max_iter=1), "nodes_", {"kind": "dict", "items": {}}, "trees with other parts"),
    (HistGradientBoostingClassifier(max_iter=1), "_add_trees", 1, "does not have the attributes of a BoostedTrees"),
    (make_pipeline(StandardScaler(), LogisticRegression()), "memory", "folder", "a pipeline with a cache"),
    (KNeighborsClassifier(), "labels", [1], "KNeighborsClassifier that cannot be rebuilt"),
    (KNeighborsClassifier(), "rows", None, "KNeighborsClassifier that cannot be rebuilt"),
    (KNeighborsClassifier(), "_y", [10**10], "attributes other than settings, rows and labels"),  # read without a look
    (KNeighborsClassifier(), "metric", "no such metric", "KNeighborsClassifier that cannot be rebuilt"),
    (LogisticRegression(), "decision_function", 1, "does not have the attributes of a LogisticRegression"),
]


def test_forged_readout_calls_nothing_but_a_classifier(tmp_path: Path) -> None:
    X = rows(2, 60)
    victim = tmp_path / "victim"
    victim.write_text("here")
    save(ClassifierRatio().fit(X, np.arange(60) % 2), tmp_path / "model")

    def change(document: dict[str, Any]) -> None:
        state = document["model"]["state"]
        state["classifier_"] = {"kind": "path", "value": str(victim)}
        state["readout_"]["state"]["method"] = "unlink"

    forge(tmp_path / "model", change)
    with pytest.raises(ValueError, match=r"arguments that Readout refuses .*'unlink'"):
        load(tmp_path / "model")
    assert victim.read_text() == "here"


@pytest.mark.parametrize(("model", "name", "value", "words"), FORGED, ids=str)
def test_forged_estimators(model: Any, name: str, value: Any, words: str, tmp_path: Path) -> None:
    save(grow(model), tmp_path)
    forge(tmp_path, lambda document: document["model"]["state"].update({name: value}))
    with pytest.raises(ValueError, match=words):
        load(tmp_path)
