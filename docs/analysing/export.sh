dalenius export release --weights learned --out weighted.parquet
