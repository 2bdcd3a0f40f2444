"""Reads all logs of a directory with inspect_ai, as its viewer does, and prints what they contain."""

import sys

from inspect_ai.log import list_eval_logs, read_eval_log

logs = list_eval_logs(sys.argv[1])
assert logs, "inspect_ai lists no log"
for info in sorted(logs, key=lambda info: info.name):
    log = read_eval_log(info)
    samples = log.samples or []
    assert log.status == "success", log.status
    assert log.results and log.results.total_samples == len(samples), "samples are missing"
    for sample in samples:
        assert sample.messages and sample.input, sample.id
        assert sample.scores or sample.error, sample.id
    accuracy = {score.name: score.metrics["accuracy"].value for score in log.results.scores}
    print(log.eval.task, log.eval.model, len(samples), accuracy)
