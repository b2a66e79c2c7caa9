"""One page about a release for people who have to sign for it, and its twin for programs."""
