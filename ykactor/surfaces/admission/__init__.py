"""Who comes in, with which slots and at which pace: asked for each connection and each request, and told to the audit."""
