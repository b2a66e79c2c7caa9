import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import dalenius

release = dalenius.load("release")
model = release.fit(LogisticRegression())
somebody = pd.DataFrame({"age": [30, 80], "gender": "F", "smoker": ["yes", "no"], "bmi": [24, 33]})
print(pd.DataFrame(model.predict_proba(somebody), columns=model.classes_).round(2))

trees = release.fit(HistGradientBoostingClassifier(max_iter=50, random_state=1))
people = pd.read_parquet("people.parquet")  # the truth again: an analyst does not have it
right = {"logistic": model, "trees": trees}
for name, one in right.items():
    print(f"{name}: {(one.predict(people) == people['disease']).mean():.0%} right")
print(f"the commonest disease: {(people['disease'] == 'flu').mean():.0%} right")
