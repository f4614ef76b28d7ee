"""The half of Kinora's engine/ray that runs in Python: the bridge between the engine and Ray, and the actors that hold
stages. `kinora run` starts it; nothing here is for other callers."""
import importlib.metadata
import sys

__version__ = "0.1.0"


def problem(version):
    """What keeps this interpreter from being the bridge of an engine of this version, and what to do; "": nothing."""
    try:
        import kinora
        found = kinora.version()
    except Exception as error:
        why = str(error).strip().partition("\n")[0]
        return (f"{sys.executable} has no Kinora ({why}); install the wheel kinora next to kinora-ray, or set "
                f"KINORA_PREFIX to an installation")
    for name, one in (("kinora-ray", __version__), ("Kinora", found)):
        if one != version:
            return f"{sys.executable} has {name} {one}, and this is Kinora {version}; install the same in both"
    try:
        ray = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        return (f"{sys.executable} has no Ray; pip install 'ray>=2.49,<2.62', or set the option python to an "
                f"interpreter that has it")
    if not (2, 49) <= tuple(int(n) for n in ray.split(".")[:2]) < (2, 62):
        return f"{sys.executable} has Ray {ray}, and kinora-ray takes 2.49 to 2.61; pip install 'ray>=2.49,<2.62'"
    return ""
