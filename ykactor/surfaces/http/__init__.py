"""The HTTP server: Apache YuniKorn's REST API, and what comes with it."""
