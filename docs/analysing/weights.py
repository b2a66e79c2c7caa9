import dalenius

release = dalenius.load("release")
weighted = release.to_polars()
print(weighted.head(4))
