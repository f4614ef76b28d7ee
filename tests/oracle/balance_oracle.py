#!/usr/bin/env python3
"""The balancer's bounds and optima against HiGHS (through scipy) as an independent solver: the linear program to 1e-6,
the bound of whole workers on both sides of its step, the exhaustive optimum as a mixed integer program, and every plan
within its nodes. usage: balance_oracle.py BALANCE_CASES"""
import json, math, subprocess, sys

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import lil_matrix

RESOURCES = 5


def cases(seed, nodes, count):
    done = subprocess.run([sys.argv[1], str(seed), str(nodes), str(count)], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def work_of(stages):
    """Seconds of work per input of the source in each stage: samples times seconds, through the graph."""
    samples = [float(not s["from"]) for s in stages]
    for i, s in enumerate(stages):
        samples[i] += sum(samples[f] * stages[f]["out"] for f in s["from"])
    return [n * s["seconds"] for n, s in zip(samples, stages)]


def needs(stage, has):
    return has if stage["whole_node"] else stage["needs"]


def may_be(stage, has):
    return all(n <= h for n, h in zip(stage["needs"], has))


def linear(case, demand, constant, cap=math.inf):
    """The largest u such that u * demand + constant workers of each stage, in any fractions, fit on the kinds of nodes;
    as variables u and, by stage and kind, workers."""
    stages, kinds = case["stages"], case["kinds"]
    pairs = [(i, k) for i, s in enumerate(stages) for k, kind in enumerate(kinds) if may_be(s, kind["has"])]
    a, b = [], []
    for i in range(len(stages)):
        a.append([demand[i]] + [-1.0 if p[0] == i else 0.0 for p in pairs])
        b.append(-constant[i])
    for k, kind in enumerate(kinds):
        for r in range(RESOURCES):
            a.append([0.0] + [needs(stages[i], kind["has"])[r] if kk == k else 0.0 for i, kk in pairs])
            b.append(kind["nodes"] * kind["has"][r])
        # A worker that needs a whole node takes a share of nodes.
        a.append([0.0] + [1.0 if kk == k and stages[i]["whole_node"] else 0.0 for i, kk in pairs])
        b.append(kind["nodes"])
    found = linprog([-1.0] + [0.0] * len(pairs), A_ub=np.array(a), b_ub=np.array(b),
                    bounds=[(0, cap)] + [(0, None)] * len(pairs), method="highs")
    return -found.fun if found.status == 0 else None


def limit_of_fixed(case, work):
    return min([s["workers"] / w for s, w in zip(case["stages"], work) if s["workers"] and w > 0], default=math.inf)


def workers_for(case, work, t):
    return [s["workers"] or max(1, math.ceil(t * w * (1 - 1e-9))) for s, w in zip(case["stages"], work)]


def optimum(case, seconds=60):
    """Throughput of the best placement, and the upper bound that HiGHS could not exclude: whole workers on each
    node."""
    stages, nodes = case["stages"], case["node_has"]
    work, n, m = work_of(stages), len(stages), len(nodes)
    size = 1 + n * m
    rows, low, high = [], [], []

    def row(entries, least, most):
        rows.append(entries), low.append(least), high.append(most)

    for i, s in enumerate(stages):
        placed = [(1 + i * m + k, 1.0) for k in range(m)]
        if s["workers"]:
            row(placed, s["workers"], s["workers"])
        else:
            row([(0, -work[i])] + placed, 0, math.inf)
            row(placed, 1, math.inf)
    for k, has in enumerate(nodes):
        for r in range(RESOURCES):
            row([(1 + i * m + k, needs(s, has)[r]) for i, s in enumerate(stages)], -math.inf, has[r])
        # A worker with a node to itself: no other fits there.
        row([(1 + i * m + k, 1.0) for i, s in enumerate(stages) if s["whole_node"]] or [(0, 0.0)], -math.inf, 1)
    matrix = lil_matrix((len(rows), size))
    for at, entries in enumerate(rows):
        for column, value in entries:
            matrix[at, column] = value
    upper = [min(limit_of_fixed(case, work), case["linear"] * 1.01)]
    upper += [math.inf if may_be(s, has) else 0 for s in stages for has in nodes]
    found = milp([-1.0] + [0.0] * (size - 1), constraints=LinearConstraint(matrix.tocsr(), low, high),
                 integrality=[0] + [1] * (size - 1),
                 bounds=Bounds([0.0] * size, upper), options={"time_limit": seconds, "mip_rel_gap": 1e-7})
    return (-found.fun if found.x is not None else 0.0), (-found.mip_dual_bound if found.mip_dual_bound is not None
                                                          else math.inf)


def check_plan(case):
    """No node exceeds its resources, and the throughput is that of its workers."""
    stages, work = case["stages"], work_of(case["stages"])
    placed = np.array(case["by_node"], dtype=float)
    for row, has in zip(placed, case["node_has"]):
        whole = [n for n, s in zip(row, stages) if s["whole_node"] and n]
        assert not whole or (whole == [1.0] and row.sum() == 1), row
        for r in range(RESOURCES):
            assert sum(n * s["needs"][r] for n, s in zip(row, stages)) <= has[r] + 1e-6, (row, has)
    total = placed.sum(axis=0)
    assert abs(min(n / w for n, w in zip(total, work) if w > 0) / case["placed"] - 1) < 1e-9, case
    assert all(n == s["workers"] for n, s in zip(total, stages) if s["workers"]), total


def check_linear(case):
    stages, work = case["stages"], work_of(case["stages"])
    assert not any(s["whole_node"] and s["workers"] for s in stages)
    fixed = [float(s["workers"]) for s in stages]
    demand = [0.0 if f else w for f, w in zip(fixed, work)]
    tight = min(limit_of_fixed(case, work), linear(case, demand, fixed))
    if not any(fixed):
        assert abs(case["linear"] / tight - 1) < 1e-6, (case["linear"], tight)
    # Our bound lets fixed workers be on any node, even where they would not fit: it is never below, and seldom above.
    assert case["linear"] > tight * (1 - 1e-6), (case["linear"], tight)
    return case["linear"] / tight - 1


def check_whole(case):
    """At the bound the linear program has room for its whole workers; slightly above it, for one more, it does not."""
    work = work_of(case["stages"])
    here = linear(case, workers_for(case, work, case["whole"]), [0.0] * len(work), cap=2)
    if sum(case["linear"] * w for w in work) > 100000:
        assert abs(case["whole"] / case["linear"] - 1) < 1e-9
        return
    assert here > 1 - 2e-6, here
    above = workers_for(case, work, case["whole"] * (1 + 1e-6))
    if case["whole"] * (1 + 1e-6) < min(case["linear"], limit_of_fixed(case, work)):
        assert linear(case, above, [0.0] * len(work), cap=2) < 1 + 1e-6, case["whole"]


def main():
    loose, seen = [], 0
    for seed, nodes, count in ((1, 1, 20), (2, 3, 20), (3, 16, 15), (4, 64, 15), (5, 1024, 10)):
        for case in cases(seed, nodes, count):
            check_plan(case), check_whole(case)
            loose.append(check_linear(case))
            assert case["placed"] <= case["whole"] * (1 + 1e-9) <= case["linear"] * (1 + 2e-6)
            seen += 1
    print(
        f"ok    linear programs of {seen} pipelines: to 1e-6, with workers of a given number at most {max(loose):.1e} "
        f"above")
    solved, reached = 0, []
    for seed, nodes, count in ((11, 1, 12), (12, 2, 12), (13, 3, 12)):
        for case in cases(seed, nodes, count):
            if case["exact"] is None:
                continue
            best, bound = optimum(case)
            assert best <= case["exact"] * (1 + 1e-6), ("HiGHS found better", best, case["exact"])
            if bound <= best * (1 + 1e-6):
                assert abs(case["exact"] / best - 1) < 1e-6, (case["exact"], best)
                solved += 1
            reached.append(case["placed"] / case["exact"])
    assert solved >= 15, solved
    print(
        f"ok    {solved} optima by search are those of the mixed integer program; the balancer reaches "
        f"{np.mean(reached):.4f}, at least {min(reached):.4f}")


main()
