"""From counts and limits to a bucket setting: one module an algorithm. Only `highs.py` knows HiGHS."""
