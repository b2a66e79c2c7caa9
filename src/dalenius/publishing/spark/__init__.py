"""Apache Spark as an engine: the same plan and the same placement, on a cluster.

    spark_engine.py    Spark behind the verbs of an engine
    session.py         a connection to Spark, and the settings that this work rests on
    frames.py          a table as a DataFrame: the columns to read, with their types, and a fingerprint of every row
    surveying.py       the first reading: ranges by Spark itself, values and lists by tasks
    cluster_table.py   a table on the cluster, as publishing reads it
    rereading.py       later readings, by tasks that check that the partition is the one of the first reading
    placing.py         tasks that place records, and tasks that put them into the order of the release
    output.py          where a release goes, and what is there already; the manifest comes last
    cluster_files.py   the file system of the cluster
    watching.py        how far the work on the cluster is, and how to stop it
    spark_errors.py    Spark's errors as ours

Tasks run on the executors. What they import (numpy, pyarrow, cryptography and `dalenius.place`) has to be there.
"""
