# Image of the service: locked, hash-checked packages, no compiler, no root.

FROM python:3.11-slim AS build
WORKDIR /build
RUN python -m venv /opt/meeseeks
ENV PATH=/opt/meeseeks/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements/build.txt requirements/service.txt requirements/
RUN pip install --require-hashes -r requirements/build.txt -r requirements/service.txt
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY hooks hooks
COPY meeseeks_hooks meeseeks_hooks
COPY relevance relevance
COPY prompts prompts
COPY worker worker
RUN pip install --no-deps --no-build-isolation . && pip uninstall --yes editables hatchling

FROM python:3.11-slim
RUN groupadd --system --gid 10001 meeseeks \
    && useradd --system --uid 10001 --gid 10001 --create-home meeseeks \
    && install --directory --owner meeseeks --group meeseeks --mode 0700 /var/lib/meeseeks
COPY --from=build /opt/meeseeks /opt/meeseeks
ENV PATH=/opt/meeseeks/bin:$PATH PYTHONUNBUFFERED=1 MEESEEKS_DATA_DIR=/var/lib/meeseeks MEESEEKS_LOG_FORMAT=json
USER meeseeks
WORKDIR /home/meeseeks
VOLUME /var/lib/meeseeks
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=20s --start-period=60s --retries=3 CMD ["meeseeks", "doctor", "--quick"]
ENTRYPOINT ["meeseeks"]
CMD ["worker"]
