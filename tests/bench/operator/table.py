#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""table.py JOBS DIRECTORY OUT: what bench.py found in DIRECTORY, as a table with its goals and as JSON."""
import json, sys

jobs, work, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def load(who, mode, n):
    with open(f"{work}/{who}-{mode}-{n}.json") as f:
        return json.load(f)


ours, theirs, short = load("millrace", "run", jobs), load("training-operator", "run", jobs), load("millrace", "complete", jobs)
started, many = load("millrace", "finished", 1000), load("millrace", "finished", 10000)
ratio = lambda key: ours[key] / theirs[key] if ours[key] is not None and theirs[key] else None
result = {
    "jobs": jobs, "seconds_to_all_running_ratio": ratio("seconds_to_all_running"), "cpu_ratio": ratio("cpu_s_with_stragglers"),
    "rss_ratio": ratio("rss_mib"), "api_writes_per_job": short["writes_per_job"], "events_per_job": short["events_per_job"],
    "duplicate_pods": ours["duplicate_pods"] + short["duplicate_pods"], "stuck_jobs": ours["stuck"] + short["stuck"],
    "rss_mib": ours["rss_mib"], "start_seconds_1000_finished": started["start_s"], "relist_seconds_10000_finished": many["start_s"],
    "rss_mib_10000_finished": many["rss_mib"], "idle_cpu_percent_10000_finished": many["idle_cpu_percent"],
    "millrace": {"run": ours, "complete": short, "finished_1000": started, "finished_10000": many},
    "training_operator": {"run": theirs},
}
with open(out, "w") as f:
    json.dump(result, f, indent=1)
    f.write("\n")

missed = 0


def row(what, value, unit, goal, good, beside=""):
    global missed
    missed += not good
    shown = "never" if value is None else f"{value:.2f}{unit}"
    print(f"{what:<44} {shown:>12}  {goal:<12} {'ok' if good else 'MISSED':<7} {beside}")


def pair(key, unit):
    a, b = ours[key], theirs[key]
    return " beside ".join("never" if v is None else f"{v:.1f} {unit}" for v in (a, b))


below = lambda v, limit: v is not None and v <= limit
print(f"{jobs} jobs of 3 pods; training-operator 1.9.0 with its defaults beside it in the same run")
row("time to all Running, ratio", result["seconds_to_all_running_ratio"], "", "<= 0.33", below(result["seconds_to_all_running_ratio"], 1 / 3),
    pair("seconds_to_all_running", "s"))
row("CPU, ratio", result["cpu_ratio"], "", "<= 0.50", below(result["cpu_ratio"], 0.5),
    f"{ours['cpu_s_with_stragglers'] / jobs * 1000:.1f} ms a job beside {theirs['cpu_s_with_stragglers'] / jobs * 1000:.1f}")
row("peak memory, ratio", result["rss_ratio"], "", "<= 0.20", below(result["rss_ratio"], 0.2), pair("rss_mib", "MiB"))
row("API writes a job, events left out", result["api_writes_per_job"], "", "<= 9", below(result["api_writes_per_job"], 9))
row("API writes a job, with events", result["api_writes_per_job"] + result["events_per_job"], "", "<= 14",
    below(result["api_writes_per_job"] + result["events_per_job"], 14), f"events {result['events_per_job']:.2f}")
row("jobs reported Running while they ran", short["reported_running"], "", f"{jobs}", short["reported_running"] == jobs)
row("jobs stuck or failed", result["stuck_jobs"] + ours["failed"] + short["failed"], "", "0",
    result["stuck_jobs"] + ours["failed"] + short["failed"] == 0)
row("duplicate pods", result["duplicate_pods"], "", "0", result["duplicate_pods"] == 0)
row("start-up with 1,000 finished jobs", started["start_s"], " s", "< 1 s", started["start_s"] < 1)
row("start-up and lists with 10,000 finished jobs", many["start_s"], " s", "< 10 s", many["start_s"] < 10)
row("memory with 10,000 finished jobs", many["rss_mib"], " MiB", "< 150 MiB", many["rss_mib"] < 150)
row("CPU at rest with 10,000 finished jobs", many["idle_cpu_percent"], " %", "<= 1 %", many["idle_cpu_percent"] <= 1)
print(f"absolute figures: {out}")
sys.exit(1 if missed else 0)
