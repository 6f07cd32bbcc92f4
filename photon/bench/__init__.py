"""Measuring: how fast the engine is and how right the models are."""
