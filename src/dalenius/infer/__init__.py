"""What anybody can learn from a release about how quasi-identifiers and sensitive values go together."""
