#!/usr/bin/env python3
"""A decoder that crashes inside train-tokenizer and encode costs the current clip, which is reported and counted, and
not the job. usage: decoder_crash.py KINORA ROOT SCRATCH FAULTY_READER"""
import io, json, pathlib, shutil, subprocess, sys, tarfile

KINORA, ROOT, SCRATCH, READER = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve(), sys.argv[4]
shutil.rmtree(SCRATCH, ignore_errors=True)
(SCRATCH / "shards").mkdir(parents=True)
with tarfile.open(SCRATCH / "shards/shard-000000.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
    for key in ("a", "bad", "c", "d"):
        for ending, data in (("mp4", b"is not read"), ("txt", b"grey")):
            entry = tarfile.TarInfo(f"{key}.{ending}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
(SCRATCH / "run.toml").write_text(f"""
[run]
out = "{SCRATCH}/run"
[[job]]
name = "tokenizer"
kind = "train-tokenizer"
input = "{SCRATCH}/shards"
tokenizer = {{ use = "cosmos", latent_channels = 2, spatial_compression_ratio = 4, \
  encoder_block_out_channels = [4, 4], decode_block_out_channels = [4, 4] }}
frames = 5
height = 16
width = 16
steps = 1
batch = 1
tensorboard = false
[[job]]
name = "latents"
kind = "encode"
input = ["{SCRATCH}/shards", "tokenizer"]
words = {{ use = "text.wordpiece", vocab = "asset:minilm/vocab.txt" }}
text = {{ use = "minilm" }}
frames = 5
height = 16
width = 16
""")
done = subprocess.run([KINORA, "--plugins", READER, "run", SCRATCH / "run.toml"], capture_output=True, text=True,
                      timeout=100)
said = done.stdout + done.stderr
assert done.returncode == 0, (done.returncode, said)
for job in ("tokenizer", "latents"):
    line = f"{job}: clip bad is left out: stage/video.read: bad: killed by signal 11 (SIGSEGV), twice"
    assert said.count(line) == 1, (line, said)
    summary = json.loads((SCRATCH / "run" / job / "summary.json").read_text())
    assert summary["failed"] == 1 and summary["clips"] == 4, (job, summary)
