import statsmodels.formula.api as smf

import dalenius

release = dalenius.load("release")
fits = []
for draw in release.complete(draws=20, seed=1):
    draw["cancer"] = 1 * (draw["disease"] == "cancer")
    fits.append(smf.logit("cancer ~ age + C(smoker)", draw).fit(disp=False))
pooled = dalenius.pool(fits)
print(pooled.summary()[["estimate", "std_error", "low", "high", "missing_information"]].round(3))
