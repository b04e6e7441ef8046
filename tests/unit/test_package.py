from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

import flowratio

# What the package depends on and `import flowratio` alone must not pay for.
HEAVY = ["torch", "sklearn", "scipy", "polars", "pyarrow", "matplotlib", "pandas"]


def modules_after(statement: str) -> set[str]:
    """Run one statement in a fresh interpreter, warnings as errors, and name the modules it has loaded."""
    code = f"import json, sys\n{statement}\nprint(json.dumps(list(sys.modules)))"
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


def test_import_loads_nothing_heavy() -> None:
    loaded = modules_after("import flowratio; dir(flowratio); flowratio.__all__")
    assert "flowratio" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_samples_and_scaling_need_no_torch() -> None:
    loaded = modules_after("from flowratio import stack, Standardizer")
    assert {"flowratio.samples.stacking", "flowratio.scaling.base"} <= loaded
    assert "torch" not in loaded


def test_kernel_ratios_and_classifiers_of_scikit_learn_need_no_torch() -> None:
    names = "KMM, KLIEP, ULSIF, RULSIF, ClassifierRatio, kl_score"
    fit = 'ClassifierRatio("logistic").fit_samples([[i] for i in range(9)], [[i] for i in range(8)]).inverse()'
    loaded = modules_after(f"from flowratio import {names}; {fit}")
    assert {"flowratio.ratios.kernel.kmm", "flowratio.ratios.classifier.classifier"} <= loaded
    assert "torch" not in loaded


def test_first_flow_loads_torch() -> None:
    # the counterpart of the tests above: without it they would pass on a package whose names resolve to nothing
    assert "torch" in modules_after("from flowratio import MAF")


@pytest.mark.parametrize("name", flowratio.__all__)
def test_public_name_resolves_and_is_listed(name: str) -> None:
    value = getattr(flowratio, name)
    assert value.__name__ == name
    assert value.__module__.startswith("flowratio.")
    assert name in dir(flowratio)


def test_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from flowratio import *", names)  # noqa: S102
    assert set(flowratio.__all__) == names.keys() - {"__builtins__"}


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'flowratio' has no attribute 'unknown'"):
        getattr(flowratio, "unknown")  # noqa: B009 - the static checker sees the plain form
    assert not hasattr(flowratio, "unknown")


def test_version_is_the_installed_one() -> None:
    assert flowratio.__version__ == version("flowratio")
