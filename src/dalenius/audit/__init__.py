"""Judges that share no code with the solvers: the author's bug must not be the judge's."""
