"""Widgets that are drawn from the scenario or the address and say what they refuse."""
