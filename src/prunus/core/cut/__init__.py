"""Ratios and scores to a cut: which indices of which weights go, and which numbers change."""
