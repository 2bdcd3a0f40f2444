-- What was granted of the limits of each provider, for all runs and workers. Times are in milliseconds since 1970.
CREATE TABLE provider_rate (
    provider       TEXT PRIMARY KEY,
    updated        BIGINT NOT NULL DEFAULT 0,
    paused_until   BIGINT NOT NULL DEFAULT 0,           -- the provider refused a request
    requests       DOUBLE PRECISION NOT NULL DEFAULT 0, -- granted, and not drained yet
    tokens         DOUBLE PRECISION NOT NULL DEFAULT 0, -- used or reserved, and not drained yet
    usd            DOUBLE PRECISION NOT NULL DEFAULT 0,
    average_tokens DOUBLE PRECISION NOT NULL DEFAULT 0, -- of a request
    average_usd    DOUBLE PRECISION NOT NULL DEFAULT 0
);
