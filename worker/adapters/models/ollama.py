"""Detection of a chat model in a local Ollama."""

import httpx

TIMEOUT = 0.5
"""Timeout in seconds."""


async def find_chat_model(base: str) -> str | None:
    """Return the most recently changed chat model at `base` in LiteLLM's notation, `None` if there is none."""
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT, trust_env=False) as client:
            answer = await client.get(f"{base.rstrip('/')}/api/tags")
            answer.raise_for_status()
            listed = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    return first_chat_model(listed)


def first_chat_model(listed: object) -> str | None:
    """Return the first model in Ollama's `/api/tags` answer that is not an embedder."""
    models = listed.get("models") if isinstance(listed, dict) else None
    for entry in models if isinstance(models, list) else []:
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and not any(word in name for word in ("embed", "minilm", "bge-", "rerank")):
            return f"ollama_chat/{name}"
    return None
