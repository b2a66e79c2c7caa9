"""Reading, counting, placing and writing, by whatever engine the table is for: one process, or a cluster."""
