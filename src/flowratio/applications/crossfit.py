"""Cross-fitting for applications. The work is done in `flowratio.ratios.fold_scores`, which diagnoses use too."""

from __future__ import annotations

from flowratio.ratios.fold_scores import FEWEST_ROWS as FEWEST_ROWS
from flowratio.ratios.fold_scores import CrossFitted as CrossFitted
from flowratio.ratios.fold_scores import FoldScores as FoldScores
from flowratio.ratios.fold_scores import check_folds as check_folds
from flowratio.ratios.fold_scores import cross_fit as cross_fit
from flowratio.ratios.fold_scores import folds_of as folds_of
from flowratio.ratios.fold_scores import ratio_to_fit as ratio_to_fit
from flowratio.ratios.registry import fit_prepared as fit_prepared
from flowratio.ratios.registry import log_ratio_prepared as log_ratio_prepared
