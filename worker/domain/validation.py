"""Plain words for the errors of pydantic, shared with the client."""

from hooks.contract.validation import describe_faults, plain_message

__all__ = ["describe_faults", "plain_message"]
