"""The version of the program, which releases carry."""

VERSION = "0.1.0"
