import dalenius

st = dalenius.load("release").st.to_pandas()
values = st.groupby("bucket")["disease"].agg(lambda own: ", ".join(sorted(own)))
print(f"{values.nunique()} different lists of values in {len(values):,} buckets; the most frequent:")
print((values.value_counts(normalize=True).head(3) * 100).round(1).to_string())
