"""Strata: trees of questions to the quasi-identifiers, and leaves merged so that they meet the limits."""
