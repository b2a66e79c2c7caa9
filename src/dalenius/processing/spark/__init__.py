"""Apache Spark as an engine: the same plan and the same placement, from a cluster.

session.py      a connection to Spark, and the settings that this work rests on
frames.py       a table as a DataFrame: the columns that are wanted, with their types, and a fingerprint of every row
surveying.py    the first reading: ranges by Spark itself, values and lists by tasks
reading.py      later readings, by tasks that check that the partition in hand is the one of the first reading
placing.py      tasks that place records, and tasks that put them into the order of the release
writing.py      both tables as folders of Parquet files
output.py       where a release goes; the manifest comes last
replacing.py    what is there already, and whether it may go
files.py        the file system of the cluster
fetching.py     a release on it, read from the driver
engine.py       all of it behind the verbs of an engine

Tasks run on the executors: what they import (numpy, pyarrow, cryptography, and `dalenius.place`) has to be there.
"""
