"""Metrics for Prometheus. Each number has one writer; a scrape reads them all and changes none."""
