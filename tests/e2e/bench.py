#!/usr/bin/env python3
"""kinora bench: all benchmarks without arguments, bounds as exit codes, and a correct comparison with the peer.
usage: bench.py [--quick] KINORA ROOT SCRATCH    quick: small sizes, one round"""
import json, os, pathlib, shutil, subprocess, sys

QUICK = sys.argv[1] == "--quick"
KINORA, ROOT, SCRATCH = sys.argv[1 + QUICK], pathlib.Path(sys.argv[2 + QUICK]), pathlib.Path(sys.argv[3 + QUICK])
FILM = ROOT / "tests/data/bbb_D.mp4"  # 48 frames


def bench(*arguments, **environment):
    done = subprocess.run([KINORA, "bench", "--json", *map(str, arguments)], capture_output=True, text=True, timeout=600, env={**os.environ, **environment})
    lines = {line["benchmark"]: line for line in map(json.loads, done.stdout.splitlines())}
    return done, lines


def check_operations(lines):
    assert abs(lines["train"]["step"]["gflop"] - 148) < 5, lines["train"]
    # torch's FlopCounterMode for diffusers' AutoencoderKLWan. Our count leaves out taps that meet only padding, and taps repeated by upsampling.
    for part, gflop in (("encode", 85.602), ("decode", 143.121)):
        assert 0.8 < lines["vae"][part]["gflop"] / gflop <= 1, lines["vae"]


def check_all():
    """Measures everything. A busy machine may miss a bound; then the exit code and one line report it."""
    folder = SCRATCH / "tmp"
    folder.mkdir()
    n = 64 if QUICK else 256  # tokens of the block
    done, lines = bench("--tokens", n, "--repeat", 1, *(["--quick"] if QUICK else []), TMPDIR=str(folder))
    assert set(lines) == {"plugin_call", "startup", "shots", "train", "sample", "vae", "block", "parallel"}, done
    networks = {"train", "sample", "vae"}
    assert all(("within" in line) == (name not in networks | {"block"}) for name, line in lines.items()), lines
    assert all("--peer" in lines[name]["peer"] for name in networks), lines  # without a comparison there is no "within"
    missed = [name for name, line in lines.items() if not line.get("within", True)]
    assert done.returncode == (1 if missed else 0), done
    for name in missed:
        parts = ", ".join(part for part, value in sorted(lines[name].items()) if isinstance(value, dict) and not value.get("within", True))
        assert f"{name}: misses its bound{f' ({parts})' if parts else ''}. Nothing is broken" in done.stderr, done
    assert lines["shots"]["frames"] == (24 if QUICK else 288) and lines["shots"]["decode_fps"] > 0, lines
    for name, part in (("train", "step"), ("sample", "denoiser"), ("vae", "encode"), ("vae", "decode")):
        least = 0 if QUICK else 0.02 if name == "vae" else 0.1
        assert least < lines[name][part]["of_product"] < 1.5 and lines[name]["product_gflops"] > 0, lines[name]
        assert lines[name][part]["gflop"] > 0, lines[name]
    assert {"schedules", "conditioning", "teacher_forcing"} <= set(lines["parallel"]["on_4"]) < set(lines["parallel"]["on_2"]), lines["parallel"]
    if not QUICK:
        check_operations(lines)
    # Tokens of width 3072: 20 d^2 per token in the linear layers (self attention, cross attention, MLP of 4 d),
    # 2 * 2 * 256 * d in attention, and the cost of 512 tokens of text.
    d, text = 3072, 512
    linear = n * 2 * (4 + 2 + 8) * d * d + text * 2 * 2 * 1024 * d + 9 * 2 * d * d
    attention = 4 * n * (n + text) * d
    assert abs(lines["block"]["gflop"] / (3e-9 * (linear + attention)) - 1) < 0.1, lines["block"]
    assert lines["block"]["tokens"] == n and 0.02 < lines["block"]["of_product"] < 1.5, lines["block"]
    assert not list(folder.iterdir()), "the generated video must be deleted"


def check_bound():
    """libtorch loaded at the start breaks a bound."""
    library = SCRATCH / "libtorch_preloaded.so"
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", str(library)], check=True)
    done, lines = bench("startup", "--repeat", 1, LD_PRELOAD=str(library))
    assert done.returncode == 1 and lines["startup"]["libtorch_loaded"] and not lines["startup"]["within"], done
    assert "startup: misses its bound. Nothing is broken and no result is wrong" in done.stderr, done


def check_peer():
    """The comparison with a fake peer."""
    ours = json.loads(subprocess.run([KINORA, "apply", "stage/shots.content", str(FILM), "--json"], capture_output=True, text=True, check=True).stdout)
    scores = [None] + ours["scores"][1:]  # the peer has no score for the first frame

    def line(says):
        folder = SCRATCH / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "python3").write_text(f"#!/bin/sh\n{says}\n")
        (folder / "python3").chmod(0o755)
        return bench("shots", "--film", FILM, "--repeat", 1, PATH=f"{folder}:{os.environ['PATH']}")[1]["shots"]

    def peer(scores):
        return "echo '" + json.dumps({"seconds": 1, "cuts": ours["cuts"], "scores": scores}) + "'"

    same = line(peer(scores))
    assert same["equal_scores"] and same["equal_cuts"] and "unequal_lengths" not in same, same
    short = line(peer(scores[:-1]))
    assert not short["equal_scores"] and short["unequal_lengths"] == {"scores": 48, "of_peer": 47}, short
    holes = line(peer(scores[:10] + [None] + scores[11:]))
    assert not holes["equal_scores"] and holes["peer_scores_missing"] == 1, holes
    other = line(peer(scores[:10] + [scores[10] + 0.5] + scores[11:]))
    assert not other["equal_scores"] and abs(other["largest_score_difference"] - 0.5) < 1e-9, other
    assert "not measured" in line("exit 1")["peer"]


def check_network_peer():
    """A slower and larger peer is beaten; a faster or smaller one is not."""
    def line(seconds, rss):
        peer = SCRATCH / "peer.sh"
        said = {"eager": {"what": "denoiser", "seconds": seconds, "cpu_seconds": seconds}, "peak_rss": rss}
        peer.write_text(f"echo '{json.dumps(said)}'\n")
        done, lines = bench("sample", "--quick", "--repeat", 1, "--peer", f"sh {peer}")
        assert done.returncode == (0 if lines["sample"]["within"] else 1), done
        return lines["sample"]

    slower = line(1e3, 1e15)
    assert slower["within"] and slower["denoiser"]["of_eager"] < 0.8 and slower["denoiser"]["eager_ms"] == 1e6, slower
    faster = line(1e-6, 1e15)
    assert not faster["within"] and faster["denoiser"]["of_eager"] > 1, faster
    smaller = line(1e3, 1)
    assert not smaller["within"] and smaller["peer_peak_rss"] == 1, smaller
    broken = bench("sample", "--quick", "--repeat", 1, "--peer", "echo no JSON #")[1]["sample"]
    assert "printed no JSON" in broken["error"], broken


def check_table():
    """The default output contains every value of --json; a missed bound prints advice."""
    done = subprocess.run([KINORA, "bench", "plugin_call", "--repeat", "1"], capture_output=True, text=True)
    first, *rows = done.stdout.splitlines()
    told = dict(row.split() for row in rows if row)
    assert first == "plugin_call" and set(told) == set(bench("plugin_call", "--repeat", 1)[1]["plugin_call"]) - {"benchmark"}, done
    assert told["within"] == ("no" if done.returncode else "yes") and told["bound"] == "2" and float(told["plugin_ns"]) > 0, done
    assert ("as happens on a busy machine. Measure again while nothing else runs" in done.stderr) == (done.returncode == 1), done


def check_usage():
    assert bench("--repeat", 0)[0].returncode == 2
    done, _ = bench("shot")
    assert done.returncode == 2 and "did you mean 'shots'?" in done.stderr, done


def check_record():
    done, lines = bench("record", "--quick")
    assert done.returncode == 0 and lines["record"]["clips"] == 1000 and lines["record"]["export_bytes"] > 100_000, done


def check_data():
    """Loading with a peer, which finds the indexed shards of pictures; what is made is deleted."""
    folder = SCRATCH / "data"
    folder.mkdir()
    peer = SCRATCH / "data_peer.sh"
    peer.write_text('test -s "$1/shard-000000.tar" -a -s "$1/.nv-meta/.info.json" && echo \'{"raw.slow": 0.5, "jpeg.slow": 0.25}\'\n')
    done, lines = bench("data", "--quick", "--repeat", 1, "--peer", f"sh {peer}", TMPDIR=str(folder))
    found = lines["data"]
    assert done.returncode == 0 and found["samples"] == 500 and min(found["shuffled_samples_per_second"], found["of_cat"], *found["jpeg_samples_per_second"].values()) > 0, done
    assert not {"bound", "within"} & found.keys(), found  # so few samples say nothing about the speed
    slow = found["peers"]
    assert abs(slow["raw.slow"]["faster_than_peer"] / found["samples_per_second"] - 2) < 1e-6, slow
    assert abs(slow["jpeg.slow"]["faster_than_peer"] / found["jpeg_samples_per_second"]["trusted"] - 4) < 1e-6 and slow["jpeg.slow"]["samples_per_second"] == 0.25, slow
    assert not list(folder.iterdir()), "the shards must be deleted"
    done, lines = bench("data", "--quick", "--repeat", 1, "--peer", "false")
    assert done.returncode == 1 and "printed no JSON" in lines["data"]["error"], done


shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True)
for check in (check_usage, check_record, check_data, check_table, check_bound, check_peer, check_network_peer, check_all):
    check()
    print("ok   ", check.__name__)
