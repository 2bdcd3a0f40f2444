-- The settings of a run hold its whole benchmark. In a table of their own, they are not written again with every counter.
CREATE TABLE run_settings (
    run      TEXT PRIMARY KEY REFERENCES run (id),
    settings TEXT NOT NULL
);
INSERT INTO run_settings (run, settings) SELECT id, settings FROM run;
ALTER TABLE run DROP COLUMN settings;
