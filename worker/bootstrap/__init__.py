"""Composition root: settings become open adapters, and these become the service."""
