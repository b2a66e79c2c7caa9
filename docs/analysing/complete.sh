dalenius complete release --draws 20 --seed 1 --format csv --out draws
