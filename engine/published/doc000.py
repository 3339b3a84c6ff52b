"""Predictions of the figures in document 000: the six-card node."""

from __future__ import annotations

from engine.published.prediction import Prediction

PREDICTIONS: dict[str, Prediction] = {}
REASONS: dict[str, str] = {}
