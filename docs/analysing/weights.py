import polars as pl

import dalenius

weighted = dalenius.load("release").to_polars()
people = pl.col("weight").sum().round(0)
bmi = ((pl.col("weight") * pl.col("bmi")).sum() / pl.col("weight").sum()).round(1)
print(weighted.group_by(pl.col("disease").cast(str)).agg(people=people, bmi=bmi).sort("disease"))
