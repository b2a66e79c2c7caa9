"""The experiments of the paper's Section 7, its Theorem 2 and its Remark 2: run, drawn and judged claim by claim."""
