"""The payloads of the REST API, which are those of Apache YuniKorn: types and their encoding. Knows nothing of HTTP."""
