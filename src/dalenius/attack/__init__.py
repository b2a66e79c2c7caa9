"""Simulated attackers, one file each, and the audit that plays them against a release."""
