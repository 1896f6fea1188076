"""The report: what a pipeline did and what its programs run, as one page for any browser."""
