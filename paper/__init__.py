"""The paper reproduced: its experiments, its own searches, and its figures beside what it claims."""
