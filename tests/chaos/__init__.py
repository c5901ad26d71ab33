"""Faults under load: real hook calls at set times, while the parts of the service are killed, frozen or broken."""
