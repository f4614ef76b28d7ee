"""Random conditions, each for Kinora and for Python. Part of select_job.py."""
import json

from select_runs import CLIPS, decisions, job, kept, run, summary

# A condition and what it means, each in its own words: the text for Kinora, and a function of facts and key for Python.
MISSING = object()
FACTS = {"duration_s": ("duration_s",), "blur": ("scores", "filter.blur"),
         "scores.filter.blur": ("scores", "filter.blur"), "flow.p10": ("scores", "filter.flow.p10"),
         "width": ("width",),
         "damaged": ("damaged",), "film": ("film",), "rating": ("user", "rating"), "user.style": ("user", "style"),
         "tags": ("tags",)}
VALUES = {"duration_s": [2, 4.5], "blur": [20, 50.5], "scores.filter.blur": [80], "flow.p10": [0.25, 0.5],
          "width": [640, 1000], "damaged": [True, False], "film": ["film-03", "film-2"], "rating": [4, "4", 0],
          "user.style": ["anime", "a"], "tags": ["sea"], "key": ["clip-0042", "clip-01"]}
SHAPES = {"damaged": ["compare", "in", "has"], "tags": ["contains", "has"]}  # of facts that other shapes never hold for


def fact(facts, key, name):
    if name == "key":
        return key
    for member in FACTS[name]:
        facts = facts.get(member, MISSING) if isinstance(facts, dict) else MISSING
    return MISSING if facts is None else facts


def number(text):
    try:
        return float(text)
    except ValueError:
        return MISSING


def compared(a, by, b):
    if isinstance(a, str) and isinstance(b, (int, float)) and not isinstance(b, bool):
        a = number(a)
    kinds = [("bool" if isinstance(x, bool) else "number" if isinstance(x, (int, float)) else "text"
              if isinstance(x, str) else "other") for x in (a, b)]
    return kinds[0] == kinds[1] != "other" and {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b,
                                                ">=": a >= b}[by]


def contained(a, b):
    return any(compared(x, "==", b)
               for x in a) if isinstance(a, list) else isinstance(a, str) and isinstance(b, str) and b in a


def simple(draw):
    name = draw.choice(list(VALUES))
    value, other = draw.choice(VALUES[name]), draw.choice(VALUES[name])
    text = draw.choice([v for v in VALUES[name] if isinstance(v, str)] or [None])
    shape = draw.choice(SHAPES.get(name, ["compare", "compare", "compare", "in", "has",
                                          "contains" if text else "compare"]))
    if shape == "has":
        return f"has({name})", lambda f, k: fact(f, k, name) is not MISSING
    if shape == "in":
        return f"{name} in {json.dumps([value, other])}", lambda f, k: any(
            compared(fact(f, k, name), "==", v) for v in (value, other))
    if shape == "contains":
        return f"{name} contains {json.dumps(text)}", lambda f, k: contained(fact(f, k, name), text)
    by = draw.choice(["==", "!="] if isinstance(value, bool) else ["==", "!=", "<", "<=", ">", ">="])
    return f"{name} {by} {json.dumps(value)}", lambda f, k: compared(fact(f, k, name), by, value)


def condition(draw, depth):
    kind = draw.choice(["simple", "not", "and", "or"]) if depth else "simple"
    if kind == "simple":
        return simple(draw)
    a, b = condition(draw, depth - 1), condition(draw, depth - 1)
    if kind == "not":
        return f"not ({a[0]})", lambda f, k: not a[1](f, k)
    return f"({a[0]} {kind} {b[0]})", (lambda f,
                                       k: a[1](f, k)
                                       and b[1](f, k)) if kind == "and" else (lambda f, k: a[1](f, k) or b[1](f, k))


def check_random_conditions(clips, draw):
    """Each clip is kept, or removed by the first condition of the top-level `and` that is false for it; the steps count
    that."""
    cases = [[condition(draw, draw.randrange(3)) for _ in range(draw.randrange(1, 4))] for _ in range(60)]
    run(*(job(f"c{i}", where=" and ".join(text for text, _ in parts)) for i, parts in enumerate(cases)))
    shares = []
    for i, parts in enumerate(cases):
        left, steps = dict(clips), []
        for _, holds in parts:
            rest = {key: facts for key, facts in left.items() if holds(facts, key)}
            steps.append((len(left), len(left) - len(rest)))
            left = rest
        where = " and ".join(text for text, _ in parts)
        assert kept(f"c{i}") == set(left), (where, kept(f"c{i}") ^ set(left))
        told = summary(f"c{i}")
        assert told["clips"] == {"kept": len(left), "filtered": CLIPS - len(left),
                                 "failed": 0} and told["inputs"] == CLIPS, (where, told)
        if len(parts) > 1:  # alone, a condition in parentheses counts by its own parts
            assert [(step["in"], step["removed"]) for step in told["steps"]] == steps, (where, told["steps"], steps)
            removed = {}
            for line in decisions(f"c{i}").values():
                if line["end"] == "filtered":
                    removed[line["rule"]] = removed.get(line["rule"], 0) + 1
            assert removed == told["rules"], (where, removed, told["rules"])
        shares.append(len(left) / CLIPS)
    assert sum(0 < share < 1 for share in shares) > 20, "most conditions must choose some clips and not others"
    print(f"{len(cases)} random conditions choose what a plain script chooses")
