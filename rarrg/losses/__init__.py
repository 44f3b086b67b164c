"""Matching and losses, as pure functions on tensors."""
