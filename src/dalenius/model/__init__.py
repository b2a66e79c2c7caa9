"""Frozen values that pass between the stages. Standard library only."""

VERSION = "0.1.0"  # which releases carry
