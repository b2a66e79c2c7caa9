import pandas as pd
import statsmodels.formula.api as smf

import dalenius

draws = dalenius.load("release").complete(draws=20, seed=1)
for draw in draws:
    draw["cancer"] = 1 * (draw["disease"] == "cancer")
fits = [smf.logit("cancer ~ age + C(smoker)", draw).fit(disp=False) for draw in draws]
errors = {"first draw": fits[0].bse, "all draws": dalenius.pool(fits).bse}
print("standard errors")
print(pd.DataFrame(errors).round(4))
print()

somebody = pd.Series([draw["disease"].iloc[0] for draw in draws]).value_counts()
print(f"the first person has {somebody.index[0]} in {somebody.iloc[0]} of 20 draws")
