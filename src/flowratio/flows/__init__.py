"""Flows: x ↔ z and the log-determinant. A new flow is its file, its line in `FLOWS`, and its test file."""

from __future__ import annotations

from flowratio.flows.adapters import adapt
from flowratio.flows.base import Flow
from flowratio.flows.coupling import RealNVP
from flowratio.flows.maf import MAF
from flowratio.flows.spline import SplineCoupling, SplineMAF

__all__ = ["FLOWS", "MAF", "Flow", "RealNVP", "SplineCoupling", "SplineMAF", "adapt"]

FLOWS: dict[str, type[Flow]] = {"maf": MAF, "coupling": RealNVP, "spline": SplineMAF, "spline-coupling": SplineCoupling}
