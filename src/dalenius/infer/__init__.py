"""What anybody can learn from a release: how quasi-identifiers and sensitive values go together."""
