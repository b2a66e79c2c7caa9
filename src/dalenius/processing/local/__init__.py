"""Everything in one process: DuckDB and Arrow read, threads place, and a folder beside the target is written to.

engine.py   opens tables, and makes places for releases
table.py    a table that is read twice, or once more and kept in memory
output.py   the tables of a release in a staging folder
"""
