"""From a ratio to an answer: divergences, information, tests, adaptation, generation, augmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowratio.lazy import lazily

if TYPE_CHECKING:
    from flowratio.applications.adaptation import ImportanceWeighted, ResampledWarning, TargetScorer
    from flowratio.applications.augmentation import augmentation_weights
    from flowratio.applications.conformal import conformal_quantile
    from flowratio.applications.divergences import Divergence, divergence
    from flowratio.applications.generation import DepletedWarning, Drawn, TargetedSampler
    from flowratio.applications.information import MutualInformation, mutual_information
    from flowratio.applications.testing import TwoSampleTest, two_sample_test

__all__ = [
    "DepletedWarning",
    "Divergence",
    "Drawn",
    "ImportanceWeighted",
    "MutualInformation",
    "ResampledWarning",
    "TargetScorer",
    "TargetedSampler",
    "TwoSampleTest",
    "augmentation_weights",
    "conformal_quantile",
    "divergence",
    "mutual_information",
    "two_sample_test",
]

_MODULES = {
    "adaptation": ["ImportanceWeighted", "ResampledWarning", "TargetScorer"],
    "conformal": ["conformal_quantile"],
    "divergences": ["divergence", "Divergence"],
    "testing": ["two_sample_test", "TwoSampleTest"],
    "information": ["mutual_information", "MutualInformation"],
    "generation": ["TargetedSampler", "Drawn", "DepletedWarning"],
    "augmentation": ["augmentation_weights"],
}
__getattr__, __dir__ = lazily(__name__, _MODULES)
