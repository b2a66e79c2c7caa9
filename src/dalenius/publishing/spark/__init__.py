"""Apache Spark as an engine: the same plan and the same placement, on a cluster."""
