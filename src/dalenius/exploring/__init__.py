"""What limits cost, answered while a hand is still on the slider.

    explorer.py    one column's counts, and answers about them: quick ones for a slider that moves, and exact ones
    offers.py      the nearest limits that can be kept
    forcing.py     the value that forces the large buckets
    peers.py       what other methods find
    answering.py   a plan as an answer, value by value
    objects.py     an answer as JSON
    worker.py      exact answers in a process of their own, which can be abandoned; child.py is its other end

`Explorer(counts).quick(policy, options)` answers in some tens of milliseconds, and `.explore(..., exact=True)` what
`dalenius plan` does. `ExactWorker().submit(counts, policy, options)` is a future of the latter; give its result to
`Explorer.learn`. `exploration_object` makes JSON of either.
"""
