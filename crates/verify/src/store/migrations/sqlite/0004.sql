-- The units of a trial are read in their order. Without the order in the index, SQLite reads all units of the run.
-- Some files of version 3 have this index already.
DROP INDEX IF EXISTS unit_trial;
CREATE INDEX unit_trial ON unit (run, trial, position);

-- How long steps of the owner had been executing when this one ended. Steps in parallel count once.
ALTER TABLE step ADD COLUMN clock BIGINT;
