"""Seconds and memory of the featurized ratio, and its defaults compared with the settings of the paper.

Claims:
- toy: `FeaturizedRatio("mlp")` with defaults takes 1/20 of the time of the paper's settings in this package, or less,
  and its error of log r is not larger. The toy is N([0, 0], I) and N([3, 3], I), with 40 000 rows of each.
- small: a fit on 2000 × 10 rows (1000 of each sample) takes under 10 s.
- scoring: log r of 10⁶ × 20 rows adds less than 500 MB.
- mi: with 80 000 rows, the best ratio is within 1 % of the mutual information of the paper's 20 + 20 columns, and
  `AutoRatio` is within 2 % in under 5 minutes. The correlations are 0.9, and the true value is 16.607 nats.

The paper's flow is a MAF of 5 blocks with batch norm, 100 epochs of batches of 100 at a learning rate of 1e-4. Its
network is an MLP of 3 × 100 units, 100 epochs of batches of 128 at 2e-4 with a weight decay of 5e-4. Both use the best
epoch on held-out rows. Seconds are processor time. One thread. Cost: about 8 minutes, most of it the paper's settings.
Command: python benchmarks/featurized.py [toy] [small] [scoring] [mi]
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from _accuracy_problems import PROBLEMS, Problem, paired
from _memory import added_mb
from _tables import print_table, run_sections, short, verdict
from _timing import one_thread, timed, versions

from flowratio import (
    MAF,
    AutoRatio,
    ClassifierRatio,
    FeaturizedRatio,
    FlowDifferenceRatio,
    FlowFeaturizer,
    NetworkRatio,
    Recipe,
    TelescopingRatio,
)

N_TOY, N_SMALL, N_SCORED, N_JOINT = 40_000, 1_000, 1_000_000, 80_000
SEEDS = (0, 1, 2)


def with_paper_settings(seed: int) -> FeaturizedRatio:
    classifier = NetworkRatio(
        "mlp",
        hidden=(100, 100, 100),
        max_epochs=100,
        batch_size=128,
        learning_rate=2e-4,
        weight_decay=5e-4,
        patience=100,
    )
    recipe = Recipe(100, 100, 1e-4, 1e-6, "adam", "constant", 100, warm_up=0, clip_norm=math.inf, average=False)
    flow = partial(MAF, hidden=(100, 100), batch_norm=True, max_log_scale=None)
    featurizer = FlowFeaturizer(flow, recipe=recipe, scaling="standard", dequantize=False)
    return FeaturizedRatio(classifier, featurizer=featurizer, random_state=seed)


def measure(make: Callable[[int], FeaturizedRatio], problem: Problem, seed: int) -> tuple[float, float, float]:
    """Return the seconds of a fit, and the mean squared error of log r on all held-out rows and where |log r| < 5."""
    rng = np.random.default_rng([seed, 9])
    X_p, X_q = problem.p.draw(N_TOY, rng), problem.q.draw(N_TOY, rng)
    ratio, seconds = timed(lambda: make(seed).fit_samples(X_p, X_q))
    X = problem.held_out(seed)
    truth = problem.log_r(X)
    errors = (ratio.log_ratio(X) - truth) ** 2
    return seconds, float(errors.mean()), float(errors[np.abs(truth) < 5].mean())


def toy() -> None:
    problem = next(problem for problem in PROBLEMS if problem.name == "the paper's toy")
    print(f"\nThe paper's toy, {N_TOY:,} rows of each sample: ours, median of {len(SEEDS)} seeds, the paper's, seed 0")
    ours = np.array([measure(lambda seed: FeaturizedRatio("mlp", random_state=seed), problem, seed) for seed in SEEDS])
    seconds, error, near = np.median(ours, axis=0)
    seconds_of_paper, error_of_paper, near_of_paper = measure(with_paper_settings, problem, 0)
    times = seconds_of_paper / seconds
    print_table(
        ["settings", "seconds", "× ours", "bound", "error of log r", "bound", "error where |log r| < 5"],
        [
            ["the paper's", short(seconds_of_paper), "", "", short(error_of_paper), "", short(near_of_paper)],
            [
                "defaults",
                short(seconds),
                short(times),
                f"20 {verdict(times >= 20)}",
                f"{short(error)} ({', '.join(short(row[1]) for row in ours)})",
                f"{short(error_of_paper)} {verdict(error <= error_of_paper)}",
                short(near),
            ],
        ],
    )


def small() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(0.5, 1, (N_SMALL, 10)), rng.normal(size=(N_SMALL, 10))
    _, seconds = timed(lambda: FeaturizedRatio("mlp", random_state=0).fit_samples(X_p, X_q))
    print(f"\n{2 * N_SMALL:,} × 10 rows: {short(seconds)} s to fit, bound 10 {verdict(seconds < 10)}")


def scoring() -> None:
    rng = np.random.default_rng(0)
    ratio = FeaturizedRatio("mlp", random_state=0)
    ratio.fit_samples(rng.normal(0.5, 1, (N_SMALL, 20)), rng.normal(size=(N_SMALL, 20)))
    X = rng.normal(size=(N_SCORED, 20))
    seconds: list[float] = []
    mb = added_mb(lambda: seconds.append(timed(lambda: ratio.log_ratio(X))[1]))
    print(f"\nlog r of {N_SCORED:,} × 20 rows: {short(seconds[0])} s, {mb:.0f} MB added, bound 500 {verdict(mb < 500)}")


def mi() -> None:
    pairs = paired(20, 0.9)
    truth = -10 * math.log(1 - 0.9**2)
    rng = np.random.default_rng([0, 9])
    joint, held_out = pairs.draw(N_JOINT, rng), pairs.draw(N_JOINT // 8, rng)
    product = np.hstack([joint[:, :20], joint[rng.permutation(N_JOINT), 20:]])
    methods = {
        "`AutoRatio()`": AutoRatio(random_state=0),
        '`ClassifierRatio("qda")`': ClassifierRatio("qda"),
        "`FlowDifferenceRatio()`": FlowDifferenceRatio(random_state=0),
        "`TelescopingRatio()`": TelescopingRatio(random_state=0),
        '`FeaturizedRatio("telescoping")`': FeaturizedRatio("telescoping", random_state=0),
        '`FeaturizedRatio("mlp")`': FeaturizedRatio("mlp", random_state=0),
        '`NetworkRatio("mlp")`': NetworkRatio("mlp", random_state=0),
    }

    def rows() -> Iterator[list[str]]:
        for name, method in methods.items():
            ratio, seconds = timed(lambda method=method: method.fit_samples(joint, product))
            log_r = ratio.log_ratio(held_out)
            estimate, error = log_r.mean(), log_r.std() / math.sqrt(len(log_r))
            yield [name, f"{estimate:.3f} ± {error:.3f}", f"{100 * (estimate / truth - 1):+.2f} %", short(seconds)]

    print(f"\nMutual information, {truth:.3f} nats in truth: the mean of log r on {len(held_out):,} joint rows")
    print_table(["method", "nats", "off by", "seconds"], rows())


def main() -> None:
    one_thread()
    print(versions())
    run_sections({"toy": toy, "small": small, "scoring": scoring, "mi": mi})


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # p and q of the toy hardly overlap, so the ratio warns
    main()
