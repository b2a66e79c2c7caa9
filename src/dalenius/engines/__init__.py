"""Engines that read tables: one module an engine."""
