"""Density ratios r(x) = p(x) / q(x) from two samples, learned in the latent space of a normalizing flow.

The names below stand in the order of the path: samples → scaling → flow → latent → ratio. Each is imported when it is
first asked for, so that `import flowratio` loads neither torch nor scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowratio.featurizer import FlowFeaturizer
    from flowratio.flows import MAF, Flow, RealNVP, SplineCoupling, SplineMAF
    from flowratio.persistence import load, save
    from flowratio.ratios import (
        KLIEP,
        KMM,
        RULSIF,
        ULSIF,
        AutoRatio,
        ClassifierRatio,
        FeaturizedRatio,
        FlowDifferenceRatio,
        InverseRatio,
        JointFeaturizedRatio,
        OverlapWarning,
        RatioEstimator,
        TelescopingRatio,
        kl_score,
    )
    from flowratio.samples import stack
    from flowratio.scaling import Dequantizer, Gaussianizer, Logit, ScalerChain, ScalingWarning, Standardizer, Whitener
    from flowratio.training import TrainingDiverged

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022 - the order of the path
    "stack",
    "Standardizer",
    "Gaussianizer",
    "Whitener",
    "Dequantizer",
    "Logit",
    "ScalerChain",
    "ScalingWarning",
    "Flow",
    "MAF",
    "RealNVP",
    "SplineMAF",
    "SplineCoupling",
    "TrainingDiverged",
    "FlowFeaturizer",
    "RatioEstimator",
    "InverseRatio",
    "KMM",
    "KLIEP",
    "ULSIF",
    "RULSIF",
    "ClassifierRatio",
    "FlowDifferenceRatio",
    "TelescopingRatio",
    "FeaturizedRatio",
    "JointFeaturizedRatio",
    "AutoRatio",
    "OverlapWarning",
    "kl_score",
    "save",
    "load",
]

_STAGES = {
    "samples": ["stack"],
    "scaling": ["Standardizer", "Gaussianizer", "Whitener", "Dequantizer", "Logit", "ScalerChain", "ScalingWarning"],
    "flows": ["Flow", "MAF", "RealNVP", "SplineMAF", "SplineCoupling"],
    "training": ["TrainingDiverged"],
    "featurizer": ["FlowFeaturizer"],
    "ratios": [
        "RatioEstimator",
        "InverseRatio",
        "KMM",
        "KLIEP",
        "ULSIF",
        "RULSIF",
        "ClassifierRatio",
        "FlowDifferenceRatio",
        "TelescopingRatio",
        "FeaturizedRatio",
        "JointFeaturizedRatio",
        "AutoRatio",
        "OverlapWarning",
        "kl_score",
    ],
    "persistence": ["save", "load"],
}
_STAGE_OF = {name: stage for stage, names in _STAGES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _STAGE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_STAGE_OF[name]}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
