import dalenius

release = dalenius.load("release")
by_disease = release.count("age >= 70", group_by=["disease"], measure=False)
for one in by_disease:
    print(one)
