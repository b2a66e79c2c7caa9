"""The ratio attack: what two differentially private counts tell about people (Section 2 of the paper)."""
