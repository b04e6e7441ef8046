"""Density ratios r(x) = p(x) / q(x) from two samples: p is the numerator (y = 1), q the denominator (y = 0).

The names below are in the order of the path: tables → samples → scaling → flow → latent → ratio → weights → application
→ diagnosis → files. Each name is imported at first use, so `import flowratio` loads neither torch nor scikit-learn.
"""
# isort: skip_file

from __future__ import annotations

from typing import TYPE_CHECKING

from flowratio._support.lazy import lazily

if TYPE_CHECKING:  # each public name is written once: here, or in the registry of the ratios
    from flowratio.tables.encoder import TableEncoder as TableEncoder, UnseenWarning as UnseenWarning
    from flowratio.tables.formats import TextFormat as TextFormat
    from flowratio.samples.stacking import stack as stack
    from flowratio.scaling.standardizer import Standardizer as Standardizer
    from flowratio.scaling.gaussianizer import Gaussianizer as Gaussianizer
    from flowratio.scaling.whitener import Whitener as Whitener
    from flowratio.scaling.images import Dequantizer as Dequantizer, Logit as Logit
    from flowratio.scaling.chain import ScalerChain as ScalerChain
    from flowratio.scaling.base import ScalingWarning as ScalingWarning
    from flowratio.flows.base import Flow as Flow
    from flowratio.flows.maf import MAF as MAF
    from flowratio.flows.coupling import RealNVP as RealNVP
    from flowratio.flows.spline import SplineCoupling as SplineCoupling, SplineMAF as SplineMAF
    from flowratio.training.run import History as History, Recipe as Recipe, TrainingDiverged as TrainingDiverged
    from flowratio.training.loop import train as train
    from flowratio.latent.featurizer import FlowFeaturizer as FlowFeaturizer
    from flowratio.ratios.base import OverlapWarning as OverlapWarning, RatioEstimator as RatioEstimator
    from flowratio.ratios.scores import kl_score as kl_score
    from flowratio.ratios.neural.networks import CNN as CNN, MLP as MLP
    from flowratio.ratios.registry import *  # noqa: F403
    from flowratio.weights import self_normalize as self_normalize, temper as temper, rebalance as rebalance
    from flowratio.weights import cap as cap, cap_to_design_effect as cap_to_design_effect
    from flowratio.weights import pareto_smooth as pareto_smooth, effective_sample_size as effective_sample_size
    from flowratio.applications.adaptation import ImportanceWeighted as ImportanceWeighted
    from flowratio.applications.weighted_fit import ResampledWarning as ResampledWarning
    from flowratio.applications.target_scorer import TargetScorer as TargetScorer
    from flowratio.applications.conformal import conformal_quantile as conformal_quantile
    from flowratio.applications.divergences import Divergence as Divergence, divergence as divergence
    from flowratio.applications.testing import TwoSampleTest as TwoSampleTest, two_sample_test as two_sample_test
    from flowratio.applications.information import MutualInformation as MutualInformation
    from flowratio.applications.information import mutual_information as mutual_information
    from flowratio.applications.target_mean import TargetMean as TargetMean, target_mean as target_mean
    from flowratio.applications.effect_weights import EffectWeights as EffectWeights, effect_weights as effect_weights
    from flowratio.applications.effects import AverageEffect as AverageEffect, average_effect as average_effect
    from flowratio.applications.generation import TargetedSample as TargetedSample, TargetedSampler as TargetedSampler
    from flowratio.applications.generation import DepletedWarning as DepletedWarning
    from flowratio.applications.against_draws import AgainstDraws as AgainstDraws, against_draws as against_draws
    from flowratio.applications.draw_check import DrawCheck as DrawCheck, check_draws as check_draws
    from flowratio.applications.augmentation import augmentation_weights as augmentation_weights
    from flowratio.applications.result import Limit as Limit
    from flowratio.diagnostics.verdict import TestVerdict as TestVerdict, Verdict as Verdict
    from flowratio.diagnostics.diagnosis import Diagnosis as Diagnosis, diagnose as diagnose
    from flowratio.diagnostics.plots import plot_balance as plot_balance, plot_estimates as plot_estimates
    from flowratio.diagnostics.plots import plot_importance as plot_importance, plot_latent as plot_latent
    from flowratio.diagnostics.plots import plot_log_ratios as plot_log_ratios, plot_reliability as plot_reliability
    from flowratio.diagnostics.plots import plot_weights as plot_weights
    from flowratio._support.journal import Journal as Journal
    from flowratio.storage.saving import load as load, save as save
    from flowratio.storage.scoring import score_file as score_file

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazily(__name__, __file__)
