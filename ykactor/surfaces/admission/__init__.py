"""The admission of connections and of requests: callers, slots, paces, and the audit of what was refused."""
