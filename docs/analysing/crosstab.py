import dalenius

release = dalenius.load("release")
table = release.crosstab("age", "disease", bins={"age": [30, 50, 70]}, seed=1)
print(table.table.round(0).astype(int).to_string())
print()
print(table.tidy().head(3).round(0).to_string(index=False))
print()
print(release.chi2("age", "disease", bins={"age": [30, 50, 70]}, seed=1))
