"""A model folder: what it takes the place of, what its rows are like, what its columns are learned from."""

from __future__ import annotations

import errno
import os
import warnings
from contextlib import nullcontext
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from flowratio import AutoRatio, ClassifierRatio, TargetedSampler, diagnose
from flowratio.applications import generation
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import OverlapWarning
from flowratio.ratios.featurized.featurized import FeaturizedRatio
from flowratio.report import folder as folders
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
    return fit_tables(table("p", 1500, 0), table("q", 1500, 1), quick_ratio(), n_folds=2)


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
                with pytest.raises(OSError, match=r"not a model of flowratio|next to a model"):
                    write(folder)
                assert contents(folder) == before

    def test_a_file_of_others_in_the_flow_is_left_alone(self, model: Model, tmp_path: Path) -> None:
        model.save(tmp_path / "m")
        (tmp_path / "m" / "flow" / "notes.txt").write_text("mine")
        with pytest.raises(OSError, match=r"'flow/notes.txt' next to a model"):
            model.save(tmp_path / "m")

    def test_a_model_is_replaced(self, model: Model, tmp_path: Path) -> None:
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
        assert Model.load(folder).evidence["origin"] == {**model.evidence["origin"], "model": str(folder)}

    def test_a_link_stays_a_link(self, model: Model, tmp_path: Path) -> None:
        (tmp_path / "disk").mkdir()
        (tmp_path / "m").symlink_to(tmp_path / "disk" / "m")
        for _ in range(2):
            model.save(tmp_path / "m")
        assert (tmp_path / "m").is_symlink()
        assert os.listdir(tmp_path / "disk") == ["m"]
        assert Model.load(tmp_path / "m").evidence["columns"] == model.evidence["columns"]

    def test_what_killed_fits_left_is_removed(self, model: Model, tmp_path: Path) -> None:
        left, whole, other = (tmp_path / name for name in (".0123abcd.m", ".ffffffff.m", ".0123abcd.n"))
        for folder in (left, other):
            (folder / "flow").mkdir(parents=True)
        model.save(whole)
        check_model_folder(tmp_path / "m")
        assert sorted(os.listdir(tmp_path)) == [other.name, "m"]  # the complete one is the only model
        model.save(whole)
        (whole / "flow" / "notes.txt").write_text("mine")
        check_model_folder(tmp_path / "m")
        assert sorted(os.listdir(tmp_path)) == sorted([whole.name, other.name, "m"])

    def test_a_save_that_fails_between_its_renames_keeps_the_old_model(
        self, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model.save(tmp_path / "m")
        before, calls = contents(tmp_path / "m"), []

        def rename(source: Path, target: Path) -> None:
            calls.append(source)
            if len(calls) == 2:
                raise OSError(errno.EIO, "Input/output error")
            own_rename(source, target)

        own_rename = os.rename
        monkeypatch.setattr(os, "rename", rename)
        with pytest.raises(OSError, match="Input/output"):
            model.save(tmp_path / "m")
        assert contents(tmp_path / "m") == before
        assert os.listdir(tmp_path) == ["m"]

    @pytest.mark.parametrize("after", [1, 2])
    def test_a_save_that_is_killed_at_a_rename_leaves_a_complete_model(
        self, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
    ) -> None:
        model.save(tmp_path / "m")
        new = Model(model.ratio, None, {**model.evidence, "k_hat": "new"})
        calls = []

        def rename(source: Path, target: Path) -> None:
            calls.append(source)
            if len(calls) > after:
                raise SystemExit  # nothing happens after a kill
            own_rename(source, target)

        own_rename = os.rename
        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", rename)
            patched.setattr(folders.shutil, "rmtree", lambda *_, **__: None)
            with pytest.raises(SystemExit) if after == 1 else nullcontext():
                new.save(tmp_path / "m")
        assert (tmp_path / "m").exists() == (after == 2)
        loaded = Model.load(tmp_path / "m")
        assert loaded.evidence["k_hat"] == "new"
        assert loaded.featurizer is None
        check_model_folder(tmp_path / "m")
        assert os.listdir(tmp_path) == ["m"]


class TestRows:
    def test_levels_have_the_shares_of_the_sample(self, model: Model) -> None:
        n = 1000
        for toward in ("p", "q"):
            draws, summary = model.sample(n, toward)
            result = draws["job"].value_counts(normalize=True).to_dict(as_series=False)
            shares = dict(zip(result["job"], result["proportion"], strict=True))
            for job, share in zip(JOBS, SHARES[toward], strict=True):
                # 4 binomial errors of the 1200 rows that were fitted and of those drawn, and 0.03 of the flow
                error = np.sqrt(share * (1 - share) * (1 / 1200 + 1 / n))
                assert abs(shares[job] - share) < 4 * error + 0.03, (toward, job)
            assert draws["age"].null_count() / n == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / 1200) + 0.03)
            assert summary.X.equals(draws)

    def test_candidates_are_scored_as_rows_of_a_table(self, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
        matrices: list[np.ndarray] = []
        encoder = model.ratio.encoder_
        plain = encoder.encode

        def recorded(table: pl.DataFrame) -> tuple[np.ndarray, dict[str, int]]:
            matrices.append(plain(table)[0])
            return plain(table)

        monkeypatch.setattr(encoder, "encode", recorded)
        model.sample(50, "p")
        X = np.concatenate(matrices)[: 50 * 100]  # the last ones are the rows themselves
        assert len(X) == 50 * 100
        indicators = X[:, [name.startswith("job = ") for name in encoder.names_]]
        assert np.isin(indicators, [0.0, 1.0]).all()
        assert indicators.sum(axis=1).max() == 1.0
        assert np.array_equal(encoder.nearest(X), X)

    def test_codes_are_levels_as_often_as_rows_are(self, model: Model) -> None:
        n = 8000
        assert model.featurizer is not None
        sampler = TargetedSampler(model.ratio, model.featurizer, random_state=0).sample(n, toward=None)
        rows = pl.concat([table("p", 1500, 0), table("q", 1500, 1)])
        for job in JOBS:
            share = (rows["job"] == job).mean()
            # 4 binomial errors of 8000 draws are 0.02; the flow leaks up to 0.03 from cell to cell
            assert (sampler["job"] == job).mean() == pytest.approx(share, abs=0.05)

    def test_many_rows_have_fewer_candidates_each(self, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(generation, "_TABLE_POOL", 5000)
        assert [len(model.sample(n, "q")[1].log_w) for n in (20, 200, 1000)] == [2000, 5000, 20_000]

    def test_rows_have_the_types_of_the_columns(self) -> None:
        rng = np.random.default_rng(0)

        def people(n: int, pay: float) -> pl.DataFrame:
            days = [date(2024, 1, 1) + timedelta(days=int(k)) for k in rng.integers(0, 300, n)]
            return pl.DataFrame(
                {
                    "pay": [f"{value:.2f}".replace(".", ",") for value in rng.normal(pay, 10, n)],
                    "age": [str(value) for value in rng.integers(18, 90, n)],
                    "day": [f"{day:%d.%m.%Y}" for day in days],
                    "town": rng.choice([f"t{k}" for k in range(30)], n).tolist(),
                }
            )

        P, Q = people(600, 100.0), people(600, 90.0)
        fitted = fit_tables(P, Q, quick_ratio(), n_folds=2)
        draws, summary = fitted.sample(200, "p")
        assert draws.dtypes == [pl.Float64, pl.Int64, pl.Date, pl.String]
        assert draws["pay"].equals(draws["pay"].round(2))
        assert draws["day"].dt.year().unique().to_list() == [2024]
        assert {*draws["town"]} <= {f"t{k}" for k in range(30)} | {"(other)"}
        assert summary.X.equals(draws)


class TestColumns:
    @pytest.mark.filterwarnings("ignore")  # of so few rows: the one that matters is asserted
    def test_a_word_is_met_before_the_rows_are_split(self) -> None:
        P, Q = (pl.DataFrame({"age": ["20", "30", "40", "50"] * n}) for n in (20, 30))
        P[0, "age"] = "young"
        with pytest.warns(UserWarning, match=r"'age' is encoded as categories, because 1 of .* such as 'young'"):
            fitted = fit_tables(P, Q, "logistic", flow=False)
        assert fitted.ratio.encoder_.columns_[0].kind == "category"

    def test_a_number_without_end_is_told_by_its_line(self, tmp_path: Path) -> None:
        P, Q = table("p", 20, 2), table("q", 20, 3)
        Q[7, "age"] = "1e999"
        Q.write_csv(tmp_path / "q.csv")
        with pytest.raises(ValueError, match=rf"'age' is infinite in line 9 of {tmp_path / 'q.csv'}. Numbers must"):
            fit_tables(P, Q, "logistic", files=("p.csv", str(tmp_path / "q.csv")))

    def test_errors_name_the_files(self) -> None:
        P, Q = table("p", 20, 2), table("q", 20, 3).rename({"age": "years"})
        with pytest.raises(ValueError, match=r"'age' only in `new.csv`, 'years' only in `old.csv`"):
            fit_tables(P, Q, "logistic", files=("new.csv", "old.csv"))
        with pytest.raises(ValueError, match=r"'age' has '.*' in `new.csv` .*'31.1.2024' in `old.csv` .date"):
            fit_tables(P, P.with_columns(age=pl.lit("31.1.2024")), "logistic", files=("new.csv", "old.csv"))
        with pytest.raises(ValueError, match=r"old\.csv has 3 rows\. Use at least 4 rows"):
            fit_tables(P, P.head(3), "logistic", files=("new.csv", "old.csv"))


def test_what_the_evidence_reports_is_not_a_warning() -> None:
    with models._without_overlap_warnings():  # warnings are errors here
        warnings.warn("1 effective draw", OverlapWarning, stacklevel=1)
        warnings.warn("Left out of z", ScalingWarning, stacklevel=1)
    with models._without_overlap_warnings(), pytest.warns(UserWarning, match="a slip"):
        warnings.warn("a slip", UserWarning, stacklevel=1)


class TestEvidence:
    def test_all_rows_are_fitted_and_checked(self) -> None:
        P, Q = table("p", 300, 2), table("q", 250, 3)
        model = fit_tables(P, Q, "logistic", flow=False, n_folds=4)
        origin, diagnosis = model.evidence["origin"], model.evidence["diagnosis"]
        assert (origin["n_p"], origin["n_q"], origin["checked_p"], origin["checked_q"]) == (300, 250, 300, 250)
        assert (diagnosis["n_folds"], diagnosis["n_p"], diagnosis["n_q"]) == (4, 300, 250)
        assert len(model.evidence["rows"]["log_q"]) == 250
        # the ratio of the model has seen every row, and the evidence has not
        assert not np.allclose(model.evidence["rows"]["log_p"], sorted(model.ratio.log_ratio(P)))

    def test_effective_sample_size_is_that_of_the_cross_fit(self) -> None:
        P, Q = table("p", 300, 2), table("q", 250, 3)
        ratio = ClassifierRatio("logistic", random_state=0)
        model = fit_tables(P, Q, ratio, flow=False, seed=0)
        assert model.ratio.encoder_ is not None
        diagnosis = diagnose(ratio, model.ratio.encoder_.parse(P), model.ratio.encoder_.parse(Q), random_state=0)
        assert model.evidence["diagnosis"]["overlap"]["ess_q"] == pytest.approx(diagnosis.overlap.ess_q)

    def test_choice_of_an_automatic_ratio_is_cross_fitted(self) -> None:
        auto = AutoRatio(["lda", "logistic"], n_folds=2)
        model = fit_tables(table("p", 200, 2), table("q", 200, 3), auto, flow=False)
        assert model.evidence["diagnosis"]["n_folds"] == 5
        assert {one["name"] for one in model.evidence["candidates"]["table"]} == {"lda", "logistic"}

    def test_a_file_against_itself_shows_no_difference(self) -> None:
        P = table("p", 300, 2)
        diagnosis = fit_tables(P, P, "logistic", flow=False).evidence["diagnosis"]
        assert diagnosis["direction"]["auc"] == pytest.approx(0.5)
        assert not any("inverted" in words for words in diagnosis["warnings"])

    def test_few_rows_are_named_with_their_file(self) -> None:
        with pytest.raises(ValueError, match=r"few\.csv has 3 rows\. Use at least 4 rows"):
            fit_tables(table("p", 3, 0), table("q", 50, 1), "logistic", files=("few.csv", "many.csv"))

    def test_shops_that_only_one_file_has_are_listed(self) -> None:
        rng = np.random.default_rng(0)
        P, Q = (pl.DataFrame({"shop": [f"s{k}" for k in rng.integers(*of, 4000)]}) for of in ((0, 80), (40, 120)))
        evidence = fit_tables(P, Q, "logistic", flow=False).evidence
        (column,) = evidence["columns"]
        changes = column["changes"]
        assert (changes["n_new"], changes["n_vanished"]) == (40, 40)
        assert changes["share_new"] == pytest.approx(0.5, abs=0.04)  # 5 binomial errors
        assert evidence["diagnosis"]["verdict"] != "reliable"
        assert evidence["diagnosis"]["balance"]["n_columns"] == 120
