"""Counting from a release."""
