-- Runs that workers share: which one goes first, and the format of their results.
ALTER TABLE run ADD COLUMN priority BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN format BIGINT NOT NULL DEFAULT 1;

-- When the result was written. Results of earlier versions have no time.
ALTER TABLE unit ADD COLUMN finished BIGINT;

-- The processes that work on runs.
CREATE TABLE worker (
    id      TEXT PRIMARY KEY,
    host    TEXT NOT NULL,
    pid     BIGINT NOT NULL,
    version TEXT NOT NULL,
    slots   BIGINT NOT NULL,                -- trials at the same time
    since   BIGINT NOT NULL,
    seen    BIGINT NOT NULL,                -- the last heartbeat
    run     TEXT                            -- what it works on
);

-- What a worker cannot run, and why. An absent name matches all.
CREATE TABLE worker_lack (
    worker   TEXT NOT NULL,
    run      TEXT NOT NULL,
    model    TEXT,
    question TEXT,
    judge    TEXT,
    reason   TEXT NOT NULL
);
CREATE INDEX worker_lack_of ON worker_lack (worker, run);
