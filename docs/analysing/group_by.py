import dalenius

release = dalenius.load("release")
counts = release.count("age >= 70 AND smoker = 'yes'", group_by="disease").to_pandas()
print(counts[["disease", "estimate", "interval_low", "interval_high", "bound_low", "bound_high"]].round().to_string())
