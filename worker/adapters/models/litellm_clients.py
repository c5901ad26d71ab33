"""The HTTP clients that litellm keeps for the whole process."""

import litellm
from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients


async def close_clients() -> None:
    """Close every client, and forget them all: one that is closed would be given to the next call."""
    await close_litellm_async_clients()  # type: ignore[no-untyped-call]
    litellm.in_memory_llm_clients_cache.flush_cache()  # type: ignore[no-untyped-call]
