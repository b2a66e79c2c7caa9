import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.stats import chi2_contingency

import dalenius

release = dalenius.load("release")
people = pd.read_parquet("people.parquet")

# what not to do: everybody with every value of the bucket, in equal parts
joined = release.qit.to_pandas().merge(release.st.to_pandas(), on="bucket")
joined["weight"] = 1 / joined["bucket"].map(release.qit.to_pandas()["bucket"].value_counts())

# does smoking go with diseases?
true = pd.crosstab(people["smoker"], people["disease"])
naive = joined.pivot_table(index="smoker", columns="disease", values="weight", aggfunc="sum")
found = release.chi2("smoker", "disease", seed=1)
print(f"chi-square of the truth {chi2_contingency(true).statistic:.0f}, naive {chi2_contingency(naive).statistic:.0f}")
print(f"of the release {found.chi2:.0f}, between {found.interval[0]:.0f} and {found.interval[1]:.0f}")
print()

# how much does the BMI tell about diabetes?
model = "diabetes ~ age + C(gender) + C(smoker) + bmi"
people["diabetes"], joined["diabetes"] = (1 * (table["disease"] == "diabetes") for table in (people, joined))
truth = smf.logit(model, people).fit(disp=False)
naive = smf.glm(model, joined, freq_weights=joined["weight"], family=sm.families.Binomial()).fit()
found = release.fit("I(disease == 'diabetes') ~ age + C(gender) + C(smoker) + bmi", family="logit", seed=1)
slopes = {"truth": truth.params, "naive": naive.params, "its error": naive.bse}
slopes |= {"release": found.params, **found.conf_int()}
print(pd.DataFrame(slopes).loc[["age", "C(gender)[T.M]", "C(smoker)[T.yes]", "bmi"]].round(3))
