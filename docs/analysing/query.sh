dalenius query release "age >= 70 AND smoker = 'yes'" --group-by disease --format csv --out counts.csv
