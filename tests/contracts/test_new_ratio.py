"""A new ratio is three files: its module, its line in the registry, its unit test. Everything else finds it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULE = '''"""A ratio that is 1 everywhere."""

from __future__ import annotations

import numpy as np

from flowratio._support.types import Matrix, Vector
from flowratio.ratios.base import RatioEstimator
from flowratio.samples.two_samples import TwoSamples


class ThrowawayRatio(RatioEstimator):
    """Estimate r = p/q, p is y = 1, by 1."""

    def _fit(self, samples: TwoSamples) -> None:
        self.mean_p_ = samples.X_p.mean(axis=0)

    def _log_ratio(self, X: Matrix) -> Vector:
        return np.zeros(len(X))
'''
IMPORT = "    from flowratio.ratios.kernel.throwaway import ThrowawayRatio as ThrowawayRatio\n"
LINE = '    "throwaway": RatioEntry("ThrowawayRatio"),\n'
TEST = """from __future__ import annotations

from flowratio import ThrowawayRatio


def test_the_ratio_is_one() -> None:
    assert ThrowawayRatio().fit_samples([[1.0], [2.0]], [[0.0], [3.0]]).ratio([[5.0]]).tolist() == [1.0]
"""
USE = """
import flowratio
from flowratio.ratios.registry import RATIOS
X_p, X_q = [[1.0], [2.0], [4.0], [6.0]], [[0.0], [3.0], [5.0], [7.0]]
assert "ThrowawayRatio" in flowratio.__all__ and "throwaway" in RATIOS
assert flowratio.FeaturizedRatio("throwaway", featurizer=flowratio.Standardizer()).fit_samples(X_p, X_q).ratio_
assert flowratio.AutoRatio(["throwaway"], n_folds=2).fit_samples(X_p, X_q).results_.candidates[0].name == "throwaway"
"""


def copied(folder: Path) -> Path:
    """Copy the package, its tests of ratios and its settings."""
    for name in ("src", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}


def run(folder: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    process = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_a_new_ratio_is_three_files(tmp_path: Path) -> None:
    folder = copied(tmp_path / "checkout")
    before = contents(folder)
    (folder / "src/flowratio/ratios/kernel/throwaway.py").write_text(MODULE)
    (folder / "tests/unit/ratios/kernel/test_throwaway.py").write_text(TEST)
    registry = folder / "src/flowratio/ratios/registry.py"
    text = registry.read_text(encoding="utf-8")
    first, entry = "    from flowratio.ratios.kernel.kmm import", '    "kmm": RatioEntry("KMM"),\n'
    registry.write_text(text.replace(first, IMPORT + first).replace(entry, entry + LINE), encoding="utf-8")
    after = contents(folder)
    assert len([name for name in after if before.get(name) != after[name]]) == 3

    run(folder, "-c", USE)
    assert "throwaway" in run(folder, "-m", "flowratio", "fit", "--help")
    contract = "tests/contracts/test_ratios.py::test_direction_is_said"
    assert "1 passed" in run(folder, "-m", "pytest", "-q", "-k", "throwaway", contract)
    assert "1 passed" in run(folder, "-m", "pytest", "-q", "tests/unit/ratios/kernel/test_throwaway.py")
    page = "import reference as r; print(r.expanded(open('docs/api/ratios.md').read()))"
    assert "::: flowratio.ratios.kernel.throwaway.ThrowawayRatio" in run(
        folder, "-c", f"import sys; sys.path.append('docs/hooks'); {page}"
    )
    linter = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    assert "0 broken" in run(folder, "-c", linter)
