"""What limits cost, answered while a hand is still on the slider.

explorer.py    one column's counts, and answers about them: quick ones for a slider that moves, and exact ones
objects.py     an answer as JSON
worker.py      exact answers in a process of their own, which can be abandoned
"""
