# The proxy as an image: `docker build -t focusctx .`, then see docs/container.md.

FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY src src
# The versions that were tested, without the hashes: pip would then ask for one of focusctx, too.
RUN grep -E '^[A-Za-z0-9].*==' requirements.lock | sed 's/ *\\$//' > constraints.txt \
 && python -m venv /app \
 && /app/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt '.[proxy,redis,otel]' \
 && /app/bin/pip uninstall --yes --quiet pip

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /data --create-home focusctx
COPY --from=build /app /app
ENV PATH=/app/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XDG_DATA_HOME=/data \
    FOCUSCTX_HEALTH=http://127.0.0.1:8400/healthz
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8400
# The certificate of a proxy that serves over TLS is not made out to 127.0.0.1, so it is not checked here.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["python", "-c", "\
import os, ssl, urllib.request as http; \
http.urlopen(os.environ['FOCUSCTX_HEALTH'], timeout=4, context=ssl._create_unverified_context())"]
ENTRYPOINT ["focusctx"]
CMD ["serve", "--config", "/etc/focusctx/focusctx.toml"]
