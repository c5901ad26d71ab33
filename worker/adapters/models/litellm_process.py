"""Environment for LiteLLM, separate from modules that import it."""

import logging
from collections.abc import MutableMapping


def prepare_environment(environ: MutableMapping[str, str]) -> None:
    """Keep LiteLLM from network access and log output of its own. Call this before the first import of LiteLLM.

    Otherwise LiteLLM downloads its price list on import, and may log to stdout through its own handler.
    """
    environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    environ["LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"] = "True"  # else downloaded by the first call, on the event loop
    environ["LITELLM_MODE"] = "PRODUCTION"  # else it loads a .env file from the working folder
    environ.pop("LITELLM_LOG", None)
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.WARNING)
