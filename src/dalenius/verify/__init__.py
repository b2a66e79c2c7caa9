"""The judge: is a release what it says, and does it keep every limit? Nothing of the author is imported here."""
