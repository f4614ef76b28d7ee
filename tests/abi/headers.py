"""The headers of the ABI as text: their structs, and copies in which every struct has grown."""
import pathlib, re, shutil, subprocess

# what 1.0 freezes; the others are drafts
FROZEN = "base plugin host options sample dlpack io run storage stage tensor noise sampler loss layout".split()
STRUCT = re.compile(r"typedef struct (kinora_\w+) \{(.*?)\n\} \1;", re.S)
# struct, member or nothing, offset or size
PINNED = re.compile(r"^KINORA_(?:SLOT|SIZE)\((\w+), (?:(\w+), )?(\d+)\);\n", re.M)


def run(*command, **more):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **{"timeout": 300, **more})


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def texts(include, names=None):
    """{name: text without comments} of the headers in include/kinora/abi."""
    folder = pathlib.Path(include) / "kinora/abi"
    return {name: without_comments((folder / f"{name}.h").read_text())
            for name in names or sorted(f.stem for f in folder.glob("*.h"))}


def includes(names):
    return "".join(f'#include "kinora/abi/{name}.h"\n' for name in names)


def may_grow(body):
    return body.split(";", 1)[0].strip() == "uint32_t struct_size"


def grow(include, to):
    """Copies the SDK's headers; every struct with struct_size has 8 more bytes at its end, as in a later minor. Returns
    their number."""
    shutil.copytree(include, to)
    n = 0
    for file in sorted((to / "kinora/abi").glob("*.h")):
        text = file.read_text()
        for name, body in STRUCT.findall(text):
            if not may_grow(without_comments(body)):
                continue
            text = text.replace(f"{body}\n}} {name};", f"{body}\n  uint64_t grown;\n}} {name};")
            text = re.sub(rf"KINORA_SIZE\({name}, (\d+)\)", lambda size: f"KINORA_SIZE({name}, {int(size[1]) + 8})",
                          text)
            n += 1
        file.write_text(text)
    return n
