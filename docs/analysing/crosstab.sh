dalenius crosstab release smoker disease --chi2 --seed 1
dalenius crosstab release smoker disease --seed 1 --format csv --out smokers.csv
