"""Density ratios r(x) = p(x) / q(x) from two samples, learned in the latent space of a normalizing flow.

The names below stand in the order of the path: samples → scaling → flow → latent → ratio → weights →
application. Each is imported when it is
first asked for, so that `import flowratio` loads neither torch nor scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowratio.lazy import lazily

if TYPE_CHECKING:
    from flowratio.applications import (
        DepletedWarning,
        Divergence,
        Drawn,
        ImportanceWeighted,
        MutualInformation,
        ResampledWarning,
        TargetedSampler,
        TargetScorer,
        TwoSampleTest,
        augmentation_weights,
        conformal_quantile,
        divergence,
        mutual_information,
        two_sample_test,
    )
    from flowratio.diagnostics import (
        Diagnosis,
        diagnose,
        plot_balance,
        plot_estimates,
        plot_importance,
        plot_latent,
        plot_log_ratios,
        plot_reliability,
        plot_weights,
    )
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
        ConvexRatio,
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
    from flowratio.scoring import score_file
    from flowratio.table_ratio import TableRatio, UnseenWarning
    from flowratio.tables import TableEncoder
    from flowratio.training import TrainingDiverged
    from flowratio.weights import (
        effective_sample_size,
        flatten,
        pareto_smooth,
        rebalance,
        self_normalize,
        trim,
        truncate,
    )

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
    "ConvexRatio",
    "AutoRatio",
    "OverlapWarning",
    "kl_score",
    "TableEncoder",
    "TableRatio",
    "UnseenWarning",
    "self_normalize",
    "flatten",
    "rebalance",
    "truncate",
    "trim",
    "pareto_smooth",
    "effective_sample_size",
    "ImportanceWeighted",
    "ResampledWarning",
    "TargetScorer",
    "conformal_quantile",
    "divergence",
    "Divergence",
    "two_sample_test",
    "TwoSampleTest",
    "mutual_information",
    "MutualInformation",
    "TargetedSampler",
    "Drawn",
    "DepletedWarning",
    "augmentation_weights",
    "diagnose",
    "Diagnosis",
    "plot_log_ratios",
    "plot_estimates",
    "plot_latent",
    "plot_reliability",
    "plot_balance",
    "plot_weights",
    "plot_importance",
    "save",
    "load",
    "score_file",
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
        "ConvexRatio",
        "AutoRatio",
        "OverlapWarning",
        "kl_score",
    ],
    "tables": ["TableEncoder"],
    "table_ratio": ["TableRatio", "UnseenWarning"],
    "weights": [
        "self_normalize",
        "flatten",
        "rebalance",
        "truncate",
        "trim",
        "pareto_smooth",
        "effective_sample_size",
    ],
    "applications": [
        "ImportanceWeighted",
        "ResampledWarning",
        "TargetScorer",
        "conformal_quantile",
        "divergence",
        "Divergence",
        "two_sample_test",
        "TwoSampleTest",
        "mutual_information",
        "MutualInformation",
        "TargetedSampler",
        "Drawn",
        "DepletedWarning",
        "augmentation_weights",
    ],
    "diagnostics": [
        "diagnose",
        "Diagnosis",
        "plot_log_ratios",
        "plot_estimates",
        "plot_latent",
        "plot_reliability",
        "plot_balance",
        "plot_weights",
        "plot_importance",
    ],
    "persistence": ["save", "load"],
    "scoring": ["score_file"],
}
__getattr__, __dir__ = lazily(__name__, _STAGES)
