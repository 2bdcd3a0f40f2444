-- Progress counts the trials under a lease. There are few, and many that are open.
CREATE INDEX trial_leased ON trial (run, lease_until) WHERE lease_until > 0;

-- One row per unit, for people, with the run's benchmark and time.
DROP VIEW result;
CREATE VIEW result AS
SELECT unit.run, run.benchmark, run.created, trial.question, trial.model, trial.replicate, unit.judge, unit.verdict,
       unit.failure_group, unit.failure_category, unit.response, unit.turns, unit.tool_calls, unit.input_tokens,
       unit.output_tokens, unit.cost_usd, unit.millis, unit.id AS unit, trial.id AS trial
FROM unit JOIN trial ON trial.run = unit.run AND trial.id = unit.trial JOIN run ON run.id = unit.run
WHERE unit.in_plan = 1
ORDER BY unit.run, unit.position;
