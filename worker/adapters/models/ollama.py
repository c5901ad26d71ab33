"""Finds a local Ollama and a model in it that can triage."""

import httpx

TIMEOUT = 0.5
"""Seconds a local Ollama gets to say what it has."""


async def find_chat_model(base: str) -> str | None:
    """The most recently changed chat model at `base` in litellm's notation, or `None` when there is no Ollama."""
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT, trust_env=False) as client:
            answer = await client.get(f"{base.rstrip('/')}/api/tags")
            answer.raise_for_status()
            listed = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    return first_chat_model(listed)


def first_chat_model(listed: object) -> str | None:
    """The first model of Ollama's `/api/tags` answer that is not an embedder."""
    models = listed.get("models") if isinstance(listed, dict) else None
    for entry in models if isinstance(models, list) else []:
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and not any(word in name for word in ("embed", "minilm", "bge-", "rerank")):
            return f"ollama_chat/{name}"
    return None
