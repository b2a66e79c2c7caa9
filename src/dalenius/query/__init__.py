"""Counting from a release.

`count` answers a condition. `conditions` and `sql` turn its text into checked SQL; `release_tables` holds the two
tables under DuckDB, on the connection of `attached_tables`; `pairs` counts conditions that tie quasi-identifiers to the
sensitive column; `learner` learns across buckets, and `calibration` measures how often intervals hold. `people_count`
answers where people have several rows or there are several sensitive columns, from `people_tables`, with the SQL of
`people_factors`. `figures` gives means, sums and quantiles of sensitive numbers, with the bounds of `numbers`.
`true_count` counts in the table itself. `workload` measures the errors of the paper's queries, on the arrays of
`bitsets`.
"""
