"""PyTorch from .deps/torch in Python, on the processor, without the 4 GB of NVIDIA's libraries that its wheel is linked
with: empty libraries take their places, whose functions end the program if one is called."""
import pathlib, re, shutil, subprocess

_THEIRS = re.compile(
    r"(cublas|cudnn|cufft|cuFile|curand|cusolver|cusparse|nvrtc|nvshmem|nvJitLink|nccl|nvml|cu[A-Z])\w*")


def _read(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


def environment(torch, scratch):
    """Variables with which another Python imports the package in the folder `torch`, and the empty libraries in
    `scratch`."""
    libraries = [*(torch / "torch/lib").glob("*.so"), *(torch / "torch").glob("_C*.so")]
    needed = {name for library in libraries
              for name in re.findall(r"NEEDED\).*\[(lib(?:cu|nv|nccl)[^\]]*)\]", _read("readelf", "-dW", library))}
    missing = sorted(name for name in needed if not list(torch.rglob(name)))
    wanted = {line.split()[-1].split("@")[0] for library in libraries
              for line in _read("nm", "-D", "--undefined-only", library).splitlines()}
    names = sorted(name for name in wanted if _THEIRS.fullmatch(name))
    assert missing and len(names) > 100, (missing, len(names))
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    source = scratch / "none.c"
    for library in missing:  # the first one has the functions of all
        source.write_text("#include <stdlib.h>\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in names))
        names = []
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", scratch / library, f"-Wl,-soname,{library}", source],
                       check=True)
    return {"LD_LIBRARY_PATH": str(scratch), "PYTHONPATH": str(torch)}
