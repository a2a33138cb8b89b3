"""Units of time, in nanoseconds."""

S_NS = 1_000_000_000
MS_NS = 1_000_000
#: Later than any time.
NEVER = 2**63
