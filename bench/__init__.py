"""Benchmarks: ratios measured in one run, on the same counts and the same cores."""
