"""Frozen values that pass between the stages. Standard library only."""
