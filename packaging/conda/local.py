#!/usr/bin/env python3
"""The conda packages. Needs the Python packages py-rattler-build and py-rattler.

usage: local.py render                 renders recipe.yaml with variants.yaml and prints what it would build
       local.py pack PREFIX CHANNEL    packs an installation (`cmake --install --prefix PREFIX --strip`), built with
       this system's compiler and libraries,
                                       as the recipe's three packages, and indexes the folder CHANNEL
       local.py try CHANNEL TARGET     solves kinora and kinora-sdk from CHANNEL alone, without a network, installs them
       into the new folder TARGET and runs it

What `pack` makes needs the system's libraries (packaging/LIBRARIES.md) and finds libtorch as docs/operate.md says; it
is for this system only."""
import asyncio, datetime, os, pathlib, subprocess, sys

try:
    import rattler
    import rattler_build
except ImportError:
    rattler = rattler_build = None

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import sbom, wheel

PLATFORM = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}[os.uname().machine]


def rendered():
    recipe = rattler_build.Stage0Recipe.from_file(HERE / "recipe.yaml")
    platform = rattler_build.PlatformConfig(target_platform=PLATFORM)
    return recipe.render(rattler_build.VariantConfig.from_file(HERE / "variants.yaml"),
                         rattler_build.RenderConfig(platform=platform))


def render():
    for one in rendered():
        recipe = one.recipe.to_dict()
        print(one.recipe.package.name, one.recipe.package.version, one.recipe.build.string,
              *recipe["requirements"]["run"], sep="  ")


def globs(files):
    """(included, excluded) patterns of a package's `files`, which is a list or, for the rest of an installation,
    {exclude: list}."""
    return (files.get("include") or ["**"], files.get("exclude", [])) if isinstance(files, dict) else (files, [])


def pack(prefix, channel):
    """The recipe says which files are in which package."""
    if not (prefix / "bin/kinora").is_file():
        sys.exit(
            f"{prefix} is not an installation, since it has no bin/kinora: cmake --install build/dev --prefix {prefix} "
            f"--strip")
    version = dict(line.split(None, 1)
                   for line in sbom.output_of(prefix / "bin/kinora", "--version").splitlines())["kinora"]
    major, minor = wheel.glibc(wheel.elf_files(prefix))
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", 0)) or 315532800
    depends = {"libkinora": [f"__glibc >={major}.{minor}"], "kinora": [f"libkinora =={version} local_0"],
               "kinora-sdk": [f"kinora =={version} local_0"]}
    packed, done = set(), set()
    for one in rendered():
        name = one.recipe.package.name
        if name in done:  # of another variant
            continue
        done.add(name)
        include, exclude = globs(one.recipe.to_dict()["build"]["files"])
        files = rattler_build.collect_files(prefix, include_globs=include, exclude_globs=exclude)
        packed.update(str(file.destination) for file in files)
        out = rattler_build.assemble_package(
            name, version, PLATFORM, "local_0", channel / PLATFORM, files=files,
            license=one.recipe.to_dict()["about"]["license"], depends=depends[name], compression_level=3,
            summary="From raw video to a video foundation model and back to video",
            license_files=[prefix / "share/doc/kinora/LICENSE"],
            timestamp=datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc))
        print(f"{out.path}: {len(files)} files, {pathlib.Path(out.path).stat().st_size >> 10} KiB")
    left = sorted({str(f.relative_to(prefix)) for f in prefix.rglob("*") if f.is_symlink() or f.is_file()} - packed)
    if left:
        sys.exit(f"no package of recipe.yaml has {left[:10]}")
    (channel / "noarch").mkdir(exist_ok=True)
    asyncio.run(rattler.index.index_fs(channel))


async def install(channel, target):
    records = await rattler.solve([rattler.Channel(channel.resolve().as_uri())], ["kinora", "kinora-sdk"],
                                  platforms=[PLATFORM, "noarch"],
                                  virtual_packages=rattler.VirtualPackage.detect())
    print("solved:", *sorted(f"{r.name.normalized} {r.version}" for r in records), sep="  ")
    await rattler.install(records, target, cache_dir=target.parent / f"{target.name}.cache", show_progress=False)


def run_it(channel, target):
    if target.exists():
        sys.exit(f"{target} exists; name a new folder")
    for folder in (PLATFORM, "noarch"):
        if not (channel / folder / "repodata.json").is_file():
            sys.exit(
                f"{channel} is not a channel, since it has no {folder}/repodata.json; `local.py pack PREFIX {channel}` "
                f"makes one")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(install(channel, target))
    except Exception as error:  # rattler's classes have no common base
        sys.exit(f"kinora and kinora-sdk of {channel} cannot be installed here: {error}")
    for command in (["--version"], ["plugins", "list", "--ids"]):
        done = subprocess.run([target / "bin/kinora", *command], capture_output=True, text=True)
        if done.returncode:
            sys.exit(
                f"{target}/bin/kinora {' '.join(command)} ended with {done.returncode}; see packaging/LIBRARIES.md for "
                f"the libraries that it needs:\n{done.stderr}")
        print(f"kinora {' '.join(command)}: {len(done.stdout.splitlines())} lines; {done.stdout.splitlines()[0]}")


def main():
    commands = {"render": (0, render), "pack": (2, pack), "try": (2, run_it)}
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return
    number, command = commands.get(sys.argv[1] if len(sys.argv) > 1 else "", (-1, None))
    if number != len(sys.argv) - 2:
        sys.exit(__doc__)
    if rattler_build is None:
        sys.exit("packaging/conda/local.py needs two Python packages: pip install py-rattler py-rattler-build")
    command(*map(pathlib.Path, sys.argv[2:]))


if __name__ == "__main__":
    main()
