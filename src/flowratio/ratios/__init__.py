"""Ratios r(x) = p(x) / q(x) on any space: p is the sample with y = 1, q that with y = 0.

Each is imported when it is first asked for, so that the kernel methods and scikit-learn's classifiers load no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowratio.lazy import lazily

if TYPE_CHECKING:
    from flowratio.ratios.auto import AutoRatio
    from flowratio.ratios.base import InverseRatio, OverlapWarning, RatioEstimator, kl_score
    from flowratio.ratios.classifier import ClassifierRatio
    from flowratio.ratios.convex import ConvexRatio
    from flowratio.ratios.difference import FlowDifferenceRatio
    from flowratio.ratios.featurized import FeaturizedRatio
    from flowratio.ratios.joint import JointFeaturizedRatio
    from flowratio.ratios.kliep import KLIEP
    from flowratio.ratios.kmm import KMM
    from flowratio.ratios.lsif import RULSIF, ULSIF
    from flowratio.ratios.telescoping import TelescopingRatio

__all__ = [
    "KLIEP",
    "KMM",
    "RULSIF",
    "ULSIF",
    "AutoRatio",
    "ClassifierRatio",
    "ConvexRatio",
    "FeaturizedRatio",
    "FlowDifferenceRatio",
    "InverseRatio",
    "JointFeaturizedRatio",
    "OverlapWarning",
    "RatioEstimator",
    "TelescopingRatio",
    "kl_score",
]

_MODULES = {
    "base": ["RatioEstimator", "InverseRatio", "OverlapWarning", "kl_score"],
    "kmm": ["KMM"],
    "kliep": ["KLIEP"],
    "lsif": ["ULSIF", "RULSIF"],
    "classifier": ["ClassifierRatio"],
    "difference": ["FlowDifferenceRatio"],
    "telescoping": ["TelescopingRatio"],
    "featurized": ["FeaturizedRatio"],
    "convex": ["ConvexRatio"],
    "joint": ["JointFeaturizedRatio"],
    "auto": ["AutoRatio"],
}
__getattr__, __dir__ = lazily(__name__, _MODULES)
