from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom

from flowratio_paper.known_maps import (
    FOLD,
    KNOWN_MAPS,
    MEAN_P,
    MEAN_Q,
    SCALE_P,
    SCALE_Q,
    draw_normal,
    in_latent_space,
    log_p,
    log_q,
    random_flow,
)
from flowratio_paper.running import Outcome
from flowratio_paper.theory import (
    N_CELLS,
    P_OF_CELLS,
    PRESETS,
    R_OF_CELLS,
    SPACES,
    cells_of,
    draw_cells,
    estimates,
    expected,
    folded,
    mean_and_error,
    report,
    slopes,
)
from flowratio_paper.verdicts import Answer

QUICK = PRESETS["quick"]


def rows() -> np.ndarray:
    return np.concatenate(draw_normal(np.random.default_rng(0), 200))


@pytest.mark.parametrize("name", KNOWN_MAPS)
def test_a_law_of_z_that_is_in_closed_form_is_that_of_mapped_rows(name: str) -> None:
    f, law = KNOWN_MAPS[name]
    X = np.random.default_rng(0).normal(MEAN_P, SCALE_P, (20_000, 2))
    # mean over p_Z of q_Z/p_Z is 1: no map of other rows, and no other density, gives it. Its deviation is about 2
    ratios = np.exp(law(MEAN_Q, SCALE_Q / 2)(f(X)) - law(MEAN_P, SCALE_P)(f(X)))
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(X))


@pytest.mark.parametrize("name", KNOWN_MAPS)
def test_only_a_fold_changes_the_ratio(name: str) -> None:
    p_of_z, q_of_z = in_latent_space(name, None, rows())
    off = np.abs(p_of_z - q_of_z - log_p(rows()) + log_q(rows())).max()
    assert off > 1 if name == FOLD else off < 1e-10


def test_densities_under_a_flow_come_from_map_and_inverse() -> None:
    flow = random_flow("maf", 0)
    p_of_z, q_of_z = in_latent_space("maf, random", flow, rows())
    x = torch.from_numpy(rows()).requires_grad_()
    z = flow(x)[0]
    gradients = [torch.autograd.grad(z[:, j].sum(), x, retain_graph=True)[0] for j in range(2)]
    log_det = torch.linalg.slogdet(torch.stack(gradients, dim=1))[1].numpy()
    np.testing.assert_allclose(p_of_z, log_p(rows()) - log_det, atol=1e-10)
    np.testing.assert_allclose(q_of_z, log_q(rows()) - log_det, atol=1e-10)


def test_a_flow_keeps_its_type() -> None:
    flow = random_flow("maf", 0)
    in_latent_space("maf, random", flow, rows().astype(np.float32))
    assert next(flow.parameters()).dtype == torch.float64


def test_cells_have_the_masses_of_p_and_are_carried_to_z() -> None:
    X_p, X_q = draw_cells(np.random.default_rng(0), 20_000)
    flow = random_flow("maf", 0)
    in_x = cells_of(X_p, "x", flow)
    # five standard deviations of a share
    bounds = 5 * np.sqrt(P_OF_CELLS / len(X_p))
    assert (np.abs(np.bincount(in_x, minlength=N_CELLS) / len(X_p) - P_OF_CELLS) < bounds).all()
    assert (np.abs(np.bincount(cells_of(X_q, "x", flow)) / len(X_q) - 1 / N_CELLS) < 5 / np.sqrt(16 * len(X_q))).all()
    for space in SPACES:
        np.testing.assert_array_equal(cells_of(X_p, space, flow), in_x)


def test_means_of_estimators_are_sums_over_all_counts() -> None:
    n, cell = 7, 5
    counts = np.arange(n + 1)
    p, q = binom.pmf(counts, n, P_OF_CELLS[cell]), binom.pmf(counts, n, 1 / N_CELLS)
    actual = estimates(counts[:, None], counts[None, :], n)
    for name in ("known", "both"):
        mean = float(p @ np.broadcast_to(actual[name], (n + 1, n + 1)) @ q)
        assert mean == pytest.approx(expected(name, n) * R_OF_CELLS[cell], rel=1e-12)
    assert float(p @ actual["plain"] @ q) != pytest.approx(R_OF_CELLS[cell], rel=0.01)


def test_moments_of_seeds_are_pooled() -> None:
    draws = np.random.default_rng(0).normal(size=(2, QUICK.resamples, N_CELLS + 1))
    outcomes = [
        Outcome({"part": "bias", "seed": k}, {"x": {"known": {"mean": one.mean(0), "variance": one.var(0)}}}, 0.0)
        for k, one in enumerate(draws)
    ]
    mean, error = mean_and_error(QUICK, outcomes, "x", "known")
    pooled = draws.reshape(-1, N_CELLS + 1)
    np.testing.assert_allclose(mean, pooled.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(error, pooled.std(axis=0) / np.sqrt(len(pooled)), rtol=1e-12)


def test_slopes_are_powers_of_n() -> None:
    errors = np.array([[3 * n**power for n in QUICK.sizes] for power in (-1.0, -0.5)])
    np.testing.assert_allclose(slopes(QUICK, errors), [-1.0, -0.5])


def results(z_power: float, off: float) -> list[Outcome]:
    """Return runs of errors that are powers of n, and of means that are `off` their place."""
    moments = {name: {"mean": [expected(name, 50) + off] * 17, "variance": [0.1] * 17} for name in ("known", "both")}
    moments["plain"] = {"mean": [1.3] * 17, "variance": [0.1] * 17}
    outcomes = [Outcome({"part": "bias", "seed": seed}, dict.fromkeys(SPACES, moments), 0.0) for seed in range(2)]
    for name in ("affine", "exponential", "hyperbolic sine", FOLD):
        numbers = {"float64": 1e-14, "float32": 1e-6, "jacobian": 1.0}
        outcomes.append(Outcome({"part": "lemma", "map": name, "seed": 0}, numbers, 0.0))
    for kind in ("maf", "spline"):
        for state in ("random", "trained"):
            numbers = {"float64": 10 * off, "float32": 1e-6, "jacobian": 1.0}
            outcomes.append(Outcome({"part": "lemma", "map": f"{kind}, {state}", "seed": 0}, numbers, 0.0))
    for method in QUICK.methods:
        for seed in range(2):
            powers = {"x": -1 - 0.01 * seed, "z": z_power + 0.01 * seed}
            errors = {space: [n**power for n in QUICK.sizes] for space, power in powers.items()}
            outcomes.append(Outcome({"part": "consistency", "method": method, "seed": seed}, errors, 0.0))
    return outcomes


def test_verdicts_follow_the_numbers() -> None:
    yes, no, inconclusive = Answer
    good = [claim.verdict for claim in report(QUICK, results(-1.0, 0.0)).claims]
    # the fold did no harm here, and counts of two samples have their bias
    # powers are the same but for chance
    assert good == [yes, yes, no, yes, yes, no, yes, inconclusive, *[yes] * 4]
    bad = [claim.verdict for claim in report(QUICK, results(0.1, 0.1)).claims]
    assert bad == [no, yes, no, no, no, no, yes, no, yes, no, yes, no]


def test_a_fold_of_the_square_brings_a_bias() -> None:
    counts = np.arange(N_CELLS)[None, :]
    assert folded(counts)[0, :4].tolist() == [6.0, 7.0, 8.0, 9.0]  # the mean of rows 0 and 3
    assert folded(counts).sum() == counts.sum()
    outcomes = results(-1.0, 0.0)
    mean = [*(folded(R_OF_CELLS[None])[0] / R_OF_CELLS), 1.5]
    for one in outcomes:
        if one.task["part"] == "bias":
            one.result["fold"] = {"known": {"mean": mean, "variance": [0.1] * 17}}
    reported = report(QUICK, outcomes)
    assert reported.tables[1].lines[-1][1] == "z, a fold (not invertible)"
    assert {claim.words: claim.verdict for claim in reported.claims}[
        "a map that is not invertible causes a bias"
    ] is Answer.YES
