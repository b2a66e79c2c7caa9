"""From counts and limits to a bucket setting: one module for each algorithm. Only `highs.py` knows HiGHS."""
