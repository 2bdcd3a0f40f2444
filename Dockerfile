# A small image with the `wharf` binary, for workers of verification runs. Not root, and no secret inside.
#
#     docker build -t wharf .
#     docker run --rm -e WHARF_VERIFY_STORE -e PGPASSWORD -e ANTHROPIC_API_KEY wharf
#
# MCP servers that are started as commands (npx, uvx) need an image of your own that begins with `FROM wharf`.

FROM rust:1.89-slim-trixie AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package wharf-cli

FROM debian:trixie-slim
# Certificates of the system, for providers and for databases with TLS.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home --home-dir /home/wharf --shell /usr/sbin/nologin wharf
COPY --from=build /src/target/release/wharf /usr/local/bin/wharf
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/wharf/
# By number: Kubernetes cannot check that a name is not root.
USER 10001:10001
WORKDIR /home/wharf
# A worker is healthy if it reaches its store.
HEALTHCHECK --interval=60s --timeout=20s --start-period=30s --retries=3 CMD ["wharf", "verify", "status"]
# SIGTERM finishes what is paid for, and hands the rest back.
STOPSIGNAL SIGTERM
ENTRYPOINT ["wharf"]
CMD ["verify", "work"]
