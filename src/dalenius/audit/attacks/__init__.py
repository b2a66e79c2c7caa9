"""Simulated attackers, one a module. They read a release as anybody could; with the truth, they are scored by it."""
