"""Traces through OpenTelemetry. Needs the extra `otel`, so it is imported only when traces are wanted."""
