-- Times are milliseconds since 1970 by the clock of the database. Truth values are 0 and 1, as in SQLite. An absent unit of
-- a step is the empty text, so that it can be part of a key. Costs are counted in billionths of a US dollar: sums are exact.

CREATE TABLE store_format (
    version BIGINT NOT NULL
);

CREATE TABLE run (
    id        TEXT PRIMARY KEY,
    benchmark TEXT NOT NULL,
    created   BIGINT NOT NULL,
    state     TEXT NOT NULL,
    units     BIGINT NOT NULL DEFAULT 0     -- in the plan
);

-- The settings of a run hold its whole benchmark. In a table of their own, they are read only when they are needed.
CREATE TABLE run_settings (
    run      TEXT PRIMARY KEY REFERENCES run (id),
    settings TEXT NOT NULL
);

-- The counters of a run are the sums of its rows. Each writer changes one of them: with one row for all, a writer would
-- wait until the commit of another one is on disk.
CREATE TABLE run_counter (
    run                TEXT NOT NULL REFERENCES run (id),
    number             BIGINT NOT NULL,
    -- Units in the plan.
    passed             BIGINT NOT NULL DEFAULT 0,
    failed             BIGINT NOT NULL DEFAULT 0,
    invalid            BIGINT NOT NULL DEFAULT 0,
    indeterminate      BIGINT NOT NULL DEFAULT 0,
    -- All steps that have a result, also failed and discarded ones.
    input_tokens       BIGINT NOT NULL DEFAULT 0,
    output_tokens      BIGINT NOT NULL DEFAULT 0,
    cache_read_tokens  BIGINT NOT NULL DEFAULT 0,
    cache_write_tokens BIGINT NOT NULL DEFAULT 0,
    reasoning_tokens   BIGINT NOT NULL DEFAULT 0,
    cost_nanos         BIGINT,
    PRIMARY KEY (run, number)
) WITH (fillfactor = 50);

CREATE TABLE trial (
    run         TEXT NOT NULL REFERENCES run (id),
    id          TEXT NOT NULL,
    position    BIGINT NOT NULL,
    in_plan     BIGINT NOT NULL,
    question    TEXT NOT NULL,
    model       TEXT NOT NULL,
    replicate   BIGINT NOT NULL,
    state       TEXT NOT NULL,              -- queued | running | done
    worker      TEXT,
    fence       BIGINT NOT NULL DEFAULT 0,
    lease_until BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (run, id)
) WITH (fillfactor = 70);
CREATE INDEX trial_open ON trial (run, position) WHERE state <> 'done';
CREATE INDEX trial_position ON trial (run, position);
-- Without `lease_until`: a renewal then changes no index.
CREATE INDEX trial_leased ON trial (run) WHERE state = 'running';

CREATE TABLE unit (
    run              TEXT NOT NULL,
    id               TEXT NOT NULL,
    trial            TEXT NOT NULL,
    position         BIGINT NOT NULL,
    in_plan          BIGINT NOT NULL,
    judge            TEXT,
    -- The result. The columns before `result` repeat parts of it for queries.
    verdict          TEXT,                  -- passed | failed | invalid | indeterminate; NULL: no result yet
    failure_group    TEXT,
    failure_category TEXT,
    response         TEXT,
    turns            BIGINT,
    tool_calls       BIGINT,
    input_tokens     BIGINT,                -- of the answer and the judge
    output_tokens    BIGINT,
    cost_usd         DOUBLE PRECISION,
    millis           BIGINT,
    result           TEXT,                  -- hash of the blob
    trace            TEXT,                  -- hash of the blob
    fence            BIGINT,                -- the lease under which the result was written
    PRIMARY KEY (run, id),
    FOREIGN KEY (run, trial) REFERENCES trial (run, id)
);
CREATE INDEX unit_position ON unit (run, position);
CREATE INDEX unit_trial ON unit (run, trial, position);

-- Without a reference to the trial: the statement that inserts a step locks its trial already.
CREATE TABLE step (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run        TEXT NOT NULL,
    trial      TEXT NOT NULL,
    unit       TEXT NOT NULL,
    request    TEXT NOT NULL,
    occurrence BIGINT NOT NULL,
    attempt    BIGINT NOT NULL,
    kind       TEXT NOT NULL,               -- model | read_only_tool | tool | judge | embedding
    state      TEXT NOT NULL,               -- started | done | interrupted | indeterminate | discarded
    failed     BIGINT NOT NULL DEFAULT 0,
    fence      BIGINT NOT NULL,
    result     TEXT,                        -- hash of the blob
    usage      TEXT,
    millis     BIGINT,
    clock      BIGINT,                      -- how long steps of the owner had been executing when this one ended
    UNIQUE (run, trial, unit, request, occurrence, attempt)
) WITH (fillfactor = 70);

-- Bytes by the SHA-256 of their uncompressed contents: equal traces and results are stored once.
CREATE TABLE blob (
    hash  TEXT PRIMARY KEY,
    size  BIGINT NOT NULL,                  -- uncompressed
    bytes BYTEA NOT NULL                    -- zlib
);
ALTER TABLE blob ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- One row per unit, for people, with the run's benchmark and time.
CREATE VIEW result AS
SELECT unit.run, run.benchmark, run.created, trial.question, trial.model, trial.replicate, unit.judge, unit.verdict,
       unit.failure_group, unit.failure_category, unit.response, unit.turns, unit.tool_calls, unit.input_tokens,
       unit.output_tokens, unit.cost_usd, unit.millis, unit.id AS unit, trial.id AS trial
FROM unit JOIN trial ON trial.run = unit.run AND trial.id = unit.trial JOIN run ON run.id = unit.run
WHERE unit.in_plan = 1
ORDER BY unit.run, unit.position;
