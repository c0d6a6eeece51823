"""How much data or time do I need? Plans for features, grokking, Bayesian models and learning curves."""

from phasecast.forecasting.planning.grokking import plan_grokking
from phasecast.forecasting.planning.plan import NeedTable
from phasecast.forecasting.planning.theory import plan_curve, plan_feature, plan_posterior

__all__ = ["NeedTable", "plan_curve", "plan_feature", "plan_grokking", "plan_posterior"]
