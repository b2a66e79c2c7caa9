"""What differentially private counts would reveal about people: the ratio attack (Section 2).

`risk` answers from start to end. `groups` finds people with the same quasi-identifiers, `noise` draws, `ratio` has the
theorem and the simulation, `tally` sums over people, and `release_shares` compares with an F'-private release.
`every_group` writes all groups to a file; `results` has the values that are returned.
"""
