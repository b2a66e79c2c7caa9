"""Random input for whatever reads files of others, in processes that are watched. `make fuzz` runs it.

Every case has to end by itself: with an answer, or with an error of ours. Anything else is a failure: another exception
(which would be an exit of 70), a process that dies, one that takes more than some seconds or more memory than it was
given, or a CSV file that is read otherwise than Python's csv module reads it. The input of a failure is kept, to be run
again.
"""
