#!/usr/bin/env python3
"""Includes and calls of services go one way: apps -> plugins/jobs -> host -> core -> sdk <- plugins, with core/torch
and core/cuda between plugins/jobs and host, and no two folders use each other, directly or around a circle. An
engine of tier host may use core and host too. A file that calls service<X>() uses the file that has the service
(KINORA_SERVICE), whose library it does not link; so a job may use one of another plugin. usage: directions.py ROOT"""
import functools, pathlib, posixpath, re, subprocess, sys, tomllib

ROOT = pathlib.Path(sys.argv[1])
SOURCES = re.compile(r"\.(cpp|hpp|h|cu|cuh)$")
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.M)
# A CMakeLists.txt whose own folder is an include folder of its targets.
OWN_FOLDER = re.compile(r'target_include_directories\([^)]*"\$\{CMAKE_CURRENT_SOURCE_DIR\}"')


@functools.cache
def is_of_host(folder):
    """Whether a plugin is built with one Kinora, whose headers it uses, and refused by any other."""
    return folder != "" and tomllib.loads((ROOT / folder / "plugin.toml").read_text())["plugin"]["tier"] == "host"


def floor_of(path):
    top = path.split("/")[0]
    if path.startswith(("core/torch/", "core/cuda/")):
        return "torch"
    if path.startswith("plugins/jobs/"):
        return "jobs"
    return "engines" if top == "plugins" and is_of_host(plugin_of(path)) else top


# Which floors a file of a floor may include. kernels and sdk are below everything.
MAY = {"apps": {"apps", "jobs", "torch", "host", "core", "kernels", "sdk"},
       "jobs": {"jobs", "torch", "host", "core", "kernels", "sdk"},
       "torch": {"torch", "host", "core", "kernels", "sdk"}, "host": {"host", "core", "sdk"}, "core": {"core", "sdk"},
       "engines": {"engines", "plugins", "host", "core", "kernels", "sdk"},
       "plugins": {"plugins", "kernels", "sdk"}, "kernels": {"kernels", "sdk"}, "sdk": {"sdk"}}
# `kinora bench balance` measures the balancer, whose types are those of the engine's plugin: kinora-bench has both.
# `kinora plan --curate` runs the engines' own scheduler.
ALLOWED = {("apps/planner/curation.hpp", "plugins/engines/common/simulated/cluster.hpp"),
           ("apps/bench/bench_balance.cpp", "plugins/engines/common/balance/trial.hpp")}


def is_test(path):
    return path.startswith("tests/") or re.search(r"_(test|testing|fixture)\.(cpp|hpp)$", path) is not None


def plugin_of(path):
    """The folder of the plugin that a file is part of; "" for a library that several share."""
    folder = pathlib.PurePosixPath(path).parent
    while folder.name:
        if (ROOT / folder / "plugin.toml").exists():
            return str(folder)
        folder = folder.parent
    return ""


def resolved(path, written, files, own):
    """The file that `#include "written"` in `path` names, looked for as the compiler does: next to the file, in the
    include folders of the folders above (`own`), the root and the SDK. None for a file that is not the project's."""
    folder = pathlib.PurePosixPath(path).parent
    for place in (folder, *(f for f in folder.parents if str(f) in own), "", "sdk/include"):
        found = posixpath.normpath(posixpath.join(place, written))
        if found in files:
            return found
    return None


def listed():
    files = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    return {path for path in files if (ROOT / path).exists()}


def sources():
    return sorted(path for path in listed() if SOURCES.search(path) and not is_test(path))


def includes():
    files = listed()
    own = {posixpath.dirname(path)
           for path in files if path.endswith("CMakeLists.txt") and OWN_FOLDER.search((ROOT / path).read_text())}
    for path in sources():
        for written in INCLUDE.findall((ROOT / path).read_text(errors="replace")):
            if included := resolved(path, written, files, own):
                yield path, included


def has_service(path):
    """Whether a file is the interface of a service, or its library's."""
    file = ROOT / path
    return file.exists() and re.search(r'kId = "service/|^KINORA_SERVICE\(', file.read_text(), re.M) is not None


def owners(texts):
    """{interface of a service: file that has it}, of {path: text}."""
    has = {}
    for path, text in texts.items():
        for name in re.findall(r"^KINORA_SERVICE\((\w+)\)", text, re.M):
            interface = re.search(rf"class {name}\b[^{{]*{{[^}}]*?using Interface = (\w+);", text)
            assert interface, f"{path}: the class {name} of KINORA_SERVICE does not name its Interface"
            has[interface[1]] = path
    return has


def named(texts):
    """(file, X) of each `service<X>`, X without its namespaces."""
    for path, text in texts.items():
        for name in re.findall(r"\bservice<\s*((?:\w+\s*::\s*)*\w+)\s*>", re.sub(r"//[^\n]*", "", text)):
            yield path, re.sub(r".*::\s*", "", name, flags=re.S)


def services(texts):
    """(file that calls a service, file that has it)."""
    has = owners(texts)
    return [(path, has[name]) for path, name in named(texts) if name in has]


def hidden(texts):
    """The ways to a service that services() does not see."""
    has = owners(texts)
    out = [f"{path} calls service<{name}>: write the interface's own name" for path, name in named(texts)
           if name not in has]
    return out + [f"{path} uses {found}: call service<X>(registry)" for path, text in texts.items()
                  if not path.startswith("core/plugin/")
                  for found in re.findall(r"::\s*kId\b", re.sub(r"//[^\n]*", "", text))]


def circles(edges):
    """The strongly connected components of more than one folder (Tarjan)."""
    order, low, stack, found = {}, {}, [], []

    def visit(folder):
        order[folder] = low[folder] = len(order)
        stack.append(folder)
        for other in sorted(edges.get(folder, ())):
            if other not in order:
                visit(other)
                low[folder] = min(low[folder], low[other])
            elif other in stack:
                low[folder] = min(low[folder], order[other])
        if low[folder] == order[folder]:
            at = stack.index(folder)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for folder in sorted(edges):
        if folder not in order:
            visit(folder)
    return found


def wrong(pairs):
    out, edges = [], {}
    for path, included in pairs:
        mine, theirs = floor_of(path), floor_of(included)
        if (path, included) in ALLOWED:
            continue
        if theirs not in MAY[mine]:
            out.append(f"{path} includes or calls {included}: {mine} must not use {theirs}")
        elif (mine in ("plugins", "engines", "jobs") and plugin_of(included) not in ("", plugin_of(path)) and
              not (mine == "jobs" and has_service(included))):
            out.append(f"{path} includes or calls {included}: a plugin must not use another plugin")
        folder, other = (str(pathlib.PurePosixPath(p).parent) for p in (path, included))
        if folder != other:
            edges.setdefault(folder, {}).setdefault(other, (path, included))
    for circle in circles(edges):
        out.append("circle of folders: " + " ".join(circle))
        out += [f"    {a} -> {b}: " + " includes ".join(edges[a][b]) for a in circle
                for b in circle if b in edges.get(a, {})]
    return out


# The check itself finds what it must.
for pair in (("core/run/a.cpp", "plugins/jobs/curate/a.hpp"), ("plugins/models/dit/a.cpp", "core/run/a.hpp"),
             ("core/run/a.cpp", "host/weights/a.hpp"), ("core/run/a.cpp", "core/torch/a.hpp"),
             ("host/workers/a.cpp", "core/torch/a.hpp"),
             ("sdk/a.hpp", "core/a.hpp"), ("plugins/jobs/dedup/a.cpp", "apps/kinora/a.hpp"),
             ("plugins/models/dit/a.cpp", "plugins/models/wan/a.hpp"),
             ("plugins/engines/local/a.cpp", "host/workers/a.hpp"),
             ("plugins/engines/ray/a.cpp", "plugins/engines/local/a.hpp"),
             ("plugins/jobs/dedup/a.cpp", "plugins/jobs/curate/a.hpp")):
    assert len(wrong([pair])) == 1, pair
assert wrong([("core/a/x.cpp", "core/b/y.hpp"), ("core/b/y.cpp", "core/c/z.hpp"),
              ("core/c/z.cpp", "core/a/x.hpp")])[0] == "circle of folders: core/a core/b core/c"
assert not wrong([("core/torch/a.cpp", "host/weights/a.hpp"), ("host/stages/a.cpp", "core/run/a.hpp"),
                  ("apps/kinora/a.cpp", "plugins/jobs/curation/a.hpp"), ("plugins/jobs/curate/a.cpp", "core/run/a.hpp"),
                  ("plugins/models/dit/a.cpp", "sdk/include/a.hpp"),
                  ("plugins/engines/ray/a.cpp", "host/workers/a.hpp")])
tree = {"plugins/stages/video/media/a.hpp", "plugins/stages/video/clips/a.hpp", "plugins/stages/video/clips/b.hpp",
        "sdk/include/kinora/a.hpp", "core/b.hpp"}
for written, found in (("media/a.hpp", "plugins/stages/video/media/a.hpp"),
                       ("a.hpp", "plugins/stages/video/clips/a.hpp"),
                       ("../media/a.hpp", "plugins/stages/video/media/a.hpp"),
                       ("kinora/a.hpp", "sdk/include/kinora/a.hpp"), ("core/b.hpp", "core/b.hpp"), ("c.hpp", None)):
    assert resolved("plugins/stages/video/clips/a.cpp", written, tree, {"plugins/stages/video"}) == found, written
assert wrong([("plugins/stages/video/media/a.cpp",
               resolved("plugins/stages/video/media/a.cpp", "clips/a.hpp", tree, {"plugins/stages/video"})),
              ("plugins/stages/video/clips/a.hpp",
               resolved("plugins/stages/video/clips/a.hpp", "../media/a.hpp", tree, set()))])[0].startswith("circle")

own = {"apps/a.cpp": "kinora::core::service<\n    kinora::core::Plans >(registry).outline();  // service<B>(x)",
       "plugins/jobs/x/x.cpp": "class P final : public Plans {\n using Interface = Plans;\n};\nKINORA_SERVICE(P)\n",
       "core/run/b.cpp": "service<Plans>(registry);"}
assert services(own) == [("apps/a.cpp", "plugins/jobs/x/x.cpp"), ("core/run/b.cpp", "plugins/jobs/x/x.cpp")]
assert wrong(services(own)) == ["core/run/b.cpp includes or calls plugins/jobs/x/x.cpp: core must not use jobs"]
assert not hidden(own)
assert hidden(own | {"apps/b.cpp": "using B = core::Plans;\nservice<B>(r);"}) == [
    "apps/b.cpp calls service<B>: write the interface's own name"]
assert hidden({"apps/b.cpp": "open(Plans::kId);", "core/plugin/a.hpp": "S::kId"}) == [
    "apps/b.cpp uses ::kId: call service<X>(registry)"]

texts = {path: (ROOT / path).read_text(errors="replace") for path in sources()}
called = services(texts)
assert len(called) >= 6, called
all_pairs = list(includes()) + called
assert len(all_pairs) > 1000, len(all_pairs)
assert ALLOWED <= set(all_pairs), "an allowed include no longer exists; remove it from ALLOWED"
problems = wrong(all_pairs) + hidden(texts)
# Benches and the program that makes pages for tests are built with the tests.
problems += [f"{path} includes {included}: only tests include a helper of tests" for path, included in all_pairs
             if is_test(included) and not path.endswith(("_bench.cpp", "/made_up_pages.cpp"))]
# plugins/jobs/latents/hdf5 reads HDF5. libhdf5 opens no file: it has known faults of memory with hostile files.
problems += [f"{path} opens a file by libhdf5: read it by plugins/jobs/latents/hdf5/hdf5_file.hpp" for path in sources()
             if re.search(r"\bH5(Fopen|Fis_|Fis_accessible|LTopen|LTread|Freopen|Fmount)",
                          (ROOT / path).read_text(errors="replace"))]
# A library is opened by its name where core opens libtorch's part and CUDA's; whoever needs another one asks for a
# service.
problems += [f"{path} names the library {name}: ask for a service (core/plugin/service.hpp)"
             for path, text in texts.items()
             for name in re.findall(r'KINORA_LIBRARY\(\s*"(\w+)"\s*\)|"lib(kinora_\w+)\.so', text)
             for name in name if name not in ("", "kinora_torch", "kinora_cuda")]
# Core names no component of a job or a service, and opens a library where plugins and libtorch are opened.
NAMES = {"core/plugin/service.hpp", "core/plugin/kinds.cpp", "core/plugin/kinds.hpp"}
OPENS = {"core/runtime/runtime.cpp", "core/torch/tensors/device.cpp"}
CODE = {path: re.sub(r"//[^\n]*", "", text) for path, text in texts.items() if path.startswith(("core/", "host/"))}
problems += [f"{path} names {found}: a kind of job answers by a virtual of JobType"
             for path, text in CODE.items() if path not in NAMES
             for found in re.findall(r'"service"|"service/[^"]*"|"job/\w[^"]*"', text)]
problems += [f"{path} opens a library: core/plugin/library.hpp does" for path, text in CODE.items()
             if path not in OPENS and re.search(r"\bdlopen\s*\(", text)]
print("\n".join(problems) or f"{len(all_pairs)} includes and calls go one way")
sys.exit(bool(problems))
