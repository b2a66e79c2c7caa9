"""What analysts do with a release beyond counting: weights, completed tables, models, cross-tabs and tests.

`pieces` reads both tables of a release in step, some whole buckets at a time. `learned` fits what a release tells of
its values (`infer.regression`) to all buckets or a random sample of them. From that `completing` draws plain tables,
each a possible truth, and `weighing` gives every possible value of everybody its probability; `draw_files` writes them.
`rubin` puts what was found in several drawn tables together. `formulas` fits models in that way, `classifiers` any of
scikit-learn's, and `cross_tabs` are tables, tests, means and quantiles.
"""
