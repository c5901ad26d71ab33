"""What has to be set before litellm is first imported."""

import logging
from collections.abc import MutableMapping


def prepare_environment(environ: MutableMapping[str, str]) -> None:
    """Makes the import of litellm and its first calls free of network access of their own, and of log lines.

    The composition root calls this before it imports any adapter built on litellm. Without the first variable litellm
    fetches its price list from the network while it is imported; `LITELLM_LOG` would set the level of its loggers, and
    with a root logger at debug level litellm would write to stdout through a handler of its own.
    """
    environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    environ["LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"] = "True"  # else fetched in the first call, on the event loop
    environ["LITELLM_MODE"] = "PRODUCTION"  # else a .env file in the working folder is taken in
    environ.pop("LITELLM_LOG", None)
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.WARNING)
