"""Fake values: how many of which go where, which slots they take, and which of them give themselves away."""
