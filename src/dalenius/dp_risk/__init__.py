"""What differentially private counts would tell about people: the ratio attack (Section 2)."""
