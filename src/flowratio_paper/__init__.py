"""The tables and figures of Choi, Liao and Ermon (2021), one file for each: `flowratio reproduce NAME`."""

from __future__ import annotations

PRESETS = ("quick", "laptop", "paper")
# in the order of the paper. The modules are imported when they are run
NAMES = (
    "motivating",
    "toy",
    "theory",
    "mixtures",
    "breast-cancer",
    "transfusion-wine",
    "mutual-information",
    "mnist",
    "omniglot",
)
