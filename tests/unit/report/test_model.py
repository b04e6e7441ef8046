"""A model folder: what it takes the place of, what its rows are like, what its columns are learned from."""

from __future__ import annotations

import os
import warnings
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import OverlapWarning
from flowratio.ratios.featurized.featurized import FeaturizedRatio
from flowratio.report import model as models
from flowratio.report.model import Model, check_model_folder, fit_tables
from flowratio.scaling.base import ScalingWarning

JOBS = ["clerk", "baker", "judge"]
SHARES = {"p": [0.5, 0.3, 0.2], "q": [0.25, 0.35, 0.4]}


def table(sample: str, n: int, seed: int) -> pl.DataFrame:
    """Draw rows as text, as a file has them: numbers with gaps, and a category."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    return pl.DataFrame(
        {
            "age": ["" if u < 0.2 else str(value) for u, value in zip(rng.random(n), age, strict=True)],
            "job": rng.choice(JOBS, n, p=SHARES[sample]).tolist(),
        }
    )


def quick_ratio() -> FeaturizedRatio:
    """Return a ratio whose flow, trained in a second or two, is that of the model."""
    return FeaturizedRatio("logistic", featurizer=FlowFeaturizer(max_epochs=25))


@pytest.fixture(scope="module")
def model() -> Model:
    return fit_tables(table("p", 1500, 0), table("q", 1500, 1), quick_ratio())


def is_set_aside(P: pl.DataFrame, seed: int) -> bool:
    """Return whether `fit_tables` sets row 0 of p aside: that of a word."""
    return "young" in models._split(P, 0.2, np.random.default_rng([seed, 0, 12]), "P")[1]["age"]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestFolder:
    @pytest.mark.parametrize(
        ("name", "text"),
        [("model.json", '{"name": "of another program"}'), ("thesis.tex", "years of work"), (".git/HEAD", "ref: x")],
    )
    def test_files_of_others_are_left_alone(self, model: Model, tmp_path: Path, name: str, text: str) -> None:
        folder = tmp_path / "m"
        for has_model in (False, True):
            if has_model and name != "model.json":
                (folder / name).unlink()
                for parent in (folder / name).relative_to(folder).parents[:-1]:
                    (folder / parent).rmdir()
                model.save(folder)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
            before = contents(folder)
            for write in (check_model_folder, model.save):
                with pytest.raises(OSError, match=r"no model of flowratio|beside a model"):
                    write(folder)
                assert contents(folder) == before

    def test_a_file_of_others_in_the_flow_is_left_alone(self, model: Model, tmp_path: Path) -> None:
        model.save(tmp_path / "m")
        (tmp_path / "m" / "flow" / "notes.txt").write_text("mine")
        with pytest.raises(OSError, match=r"'flow/notes.txt' beside a model"):
            model.save(tmp_path / "m")

    @pytest.mark.parametrize("can_exchange", [True, False])
    def test_a_model_is_replaced(
        self, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
    ) -> None:
        if not can_exchange:
            monkeypatch.setattr(models, "_exchanged", lambda a, b: False)
        folder = tmp_path / "m"
        folder.mkdir()  # an empty one is taken
        model.save(folder)
        first = contents(folder)
        (folder / "tensors-0123456789abcdef.safetensors").write_bytes(b"of a save that was killed")
        folder.chmod(0o750)
        model.save(folder)
        assert contents(folder) == first
        assert folder.stat().st_mode & 0o777 == 0o750
        assert os.listdir(tmp_path) == ["m"]
        assert Model.load(folder).evidence == model.evidence

    def test_a_link_stays_a_link(self, model: Model, tmp_path: Path) -> None:
        (tmp_path / "disk").mkdir()
        (tmp_path / "m").symlink_to(tmp_path / "disk" / "m")
        for _ in range(2):
            model.save(tmp_path / "m")
        assert (tmp_path / "m").is_symlink()
        assert os.listdir(tmp_path / "disk") == ["m"]
        assert Model.load(tmp_path / "m").evidence == model.evidence

    def test_what_killed_fits_left_is_removed(self, model: Model, tmp_path: Path) -> None:
        left, whole, other = (tmp_path / name for name in (".0123abcd.m", ".ffffffff.m", ".0123abcd.n"))
        for folder in (left, other):
            (folder / "flow").mkdir(parents=True)
        model.save(whole)
        check_model_folder(tmp_path / "m")
        assert sorted(os.listdir(tmp_path)) == sorted([whole.name, other.name])  # a whole one may be the only model
        model.save(tmp_path / "m")
        check_model_folder(tmp_path / "m")
        assert sorted(os.listdir(tmp_path)) == [other.name, "m"]


class TestRows:
    def test_levels_have_the_shares_of_the_sample(self, model: Model) -> None:
        n = 1000
        for toward in ("p", "q"):
            drawn, told = model.sample(n, toward)
            found = drawn["job"].value_counts(normalize=True).to_dict(as_series=False)
            shares = dict(zip(found["job"], found["proportion"], strict=True))
            for job, share in zip(JOBS, SHARES[toward], strict=True):
                # 4 binomial errors of the 1200 rows that were fitted and of those drawn, and 0.03 of the flow
                error = np.sqrt(share * (1 - share) * (1 / 1200 + 1 / n))
                assert abs(shares[job] - share) < 4 * error + 0.03, (toward, job)
            assert drawn["age"].null_count() / n == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / 1200) + 0.03)
            assert np.array_equal(told.X, model.ratio.encoder_.transform(drawn))

    def test_candidates_are_scored_as_rows_of_a_table(self, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[np.ndarray] = []
        plain = model.ratio.ratio_.log_ratio

        def watched(X: np.ndarray) -> np.ndarray:
            seen.append(X)
            return plain(X)

        monkeypatch.setattr(model.ratio.ratio_, "log_ratio", watched)
        model.sample(50, "p")
        X, encoder = np.concatenate(seen), model.ratio.encoder_
        assert len(X) == 50 * 100
        indicators = X[:, [name.startswith("job = ") for name in encoder.names_]]
        assert np.isin(indicators, [0.0, 1.0]).all()
        assert indicators.sum(axis=1).max() == 1.0
        assert np.array_equal(encoder.nearest(X), X)

    def test_codes_are_levels_as_often_as_rows_are(self, model: Model) -> None:
        n = 8000
        assert model.featurizer is not None
        drawn = model.decode(np.random.default_rng(0).normal(size=(n, model.featurizer.flow_.n_features)))
        rows = pl.concat([table("p", 1500, 0), table("q", 1500, 1)])
        for job in JOBS:
            share = (rows["job"] == job).mean()
            # 4 binomial errors of 8000 draws are 0.02; the flow leaks up to 0.03 from cell to cell
            assert (drawn["job"] == job).mean() == pytest.approx(share, abs=0.05)

    def test_many_rows_have_fewer_candidates_each(self, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(models, "_POOL", 5000)
        assert [len(model.sample(n, "q")[1].log_w) for n in (20, 200, 1000)] == [2000, 5000, 20_000]

    def test_rows_are_written_as_those_that_were_fitted(self) -> None:
        rng = np.random.default_rng(0)

        def people(n: int, pay: float) -> pl.DataFrame:
            days = [date(2024, 1, 1) + timedelta(days=int(k)) for k in rng.integers(0, 300, n)]
            return pl.DataFrame(
                {
                    "pay": [f"{value:.2f}".replace(".", ",") + " €" for value in rng.normal(pay, 10, n)],
                    "age": [str(value) for value in rng.integers(18, 90, n)],
                    "day": [f"{day:%d.%m.%Y}" for day in days],
                    "town": rng.choice([f"t{k}" for k in range(30)], n).tolist(),
                }
            )

        P, Q = people(600, 100.0), people(600, 90.0)
        fitted = fit_tables(P, Q, quick_ratio())
        drawn, told = fitted.sample(200, "p")
        assert drawn["pay"].str.contains(r"^-?[0-9]+,[0-9]{2} €$").all()
        assert drawn["age"].dtype == pl.Int64
        assert drawn["day"].str.contains(r"^[0-9]{2}\.[0-9]{2}\.20[0-9]{2}$").all()
        assert {*drawn["town"]} <= {f"t{k}" for k in range(30)}
        assert np.array_equal(told.X, fitted.ratio.encoder_.transform(drawn))


class TestColumns:
    @pytest.mark.filterwarnings("ignore")  # of so few rows: the one that matters is asserted
    @pytest.mark.parametrize("set_aside", [True, False])
    def test_a_word_is_met_before_the_rows_are_split(self, set_aside: bool) -> None:
        P, Q = (pl.DataFrame({"age": ["20", "30", "40", "50"] * n}) for n in (20, 30))
        P[0, "age"] = "young"
        seed = next(seed for seed in range(50) if is_set_aside(P, seed) == set_aside)
        with pytest.warns(UserWarning, match=r"'age' is taken for categories, as 1 of .* such as 'young'"):
            fitted = fit_tables(P, Q, quick_ratio(), seed=seed)
        assert fitted.ratio.encoder_.columns_[0].kind == "category"

    def test_a_number_without_end_is_told_by_its_line(self, tmp_path: Path) -> None:
        P, Q = table("p", 20, 2), table("q", 20, 3)
        Q[7, "age"] = "1e999"
        Q.write_csv(tmp_path / "q.csv")
        with pytest.raises(ValueError, match=rf"'age' is infinite in line 9 of {tmp_path / 'q.csv'}: numbers must"):
            fit_tables(P, Q, "logistic", files=("p.csv", str(tmp_path / "q.csv")))

    def test_errors_name_the_files(self) -> None:
        P, Q = table("p", 20, 2), table("q", 20, 3).rename({"age": "years"})
        with pytest.raises(ValueError, match=r"'age' only in `new.csv`, 'years' only in `old.csv`"):
            fit_tables(P, Q, "logistic", files=("new.csv", "old.csv"))
        with pytest.raises(ValueError, match=r"'age' has '.*' in `new.csv` .*'31.1.2024' in `old.csv` .a date"):
            fit_tables(P, P.with_columns(age=pl.lit("31.1.2024")), "logistic", files=("new.csv", "old.csv"))
        with pytest.raises(ValueError, match=r"old.csv has 3 rows"):
            fit_tables(P, P.head(3), "logistic", files=("new.csv", "old.csv"))


def test_what_is_told_elsewhere_is_not_told_of_the_fit() -> None:
    with models._told_elsewhere():  # warnings are errors here
        warnings.warn("1 effective draw", OverlapWarning, stacklevel=1)
        warnings.warn("Left out of z", ScalingWarning, stacklevel=1)
    with models._told_elsewhere(), pytest.warns(UserWarning, match="a slip"):
        warnings.warn("a slip", UserWarning, stacklevel=1)
