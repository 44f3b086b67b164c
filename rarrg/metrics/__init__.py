"""Measures of texts, labels and phrases, as pure functions on strings and arrays."""
