import dalenius

release = dalenius.load("release")
cancer = release.fit("I(disease == 'cancer') ~ age + C(smoker)", family="logit", draws=20, seed=1)
print(cancer.summary()[["estimate", "std_error", "low", "high", "missing_information"]].round(3))
print(cancer.notes[0])
print()

every = release.fit("disease ~ age + C(smoker)", family="multinomial", draws=20, seed=1)
print(every.summary().filter(like="age", axis="index")[["estimate", "low", "high"]].round(3))
print(every.notes[0])
