"""The command line: parse, call, render. No logic of its own."""
