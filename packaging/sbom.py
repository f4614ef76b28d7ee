#!/usr/bin/env python3
"""Writes a software bill of materials (SPDX 2.3, JSON) of an installation: the libraries that its files need, with the
Debian packages that provide them here, the libraries that they contain, and the videos; and of the wheel kinora-ray.
Licences are those of packaging/LIBRARIES.md. usage: sbom.py PREFIX OUT.spdx.json"""
import datetime, hashlib, json, os, pathlib, re, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent
NOT_STATED = "NOASSERTION"


def output_of(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def tables():
    """Licences of linked libraries and of contained packages: ({"libfmt": "MIT"}, {"libfmt-dev": "MIT"})."""
    out = []
    for part in (ROOT / "LIBRARIES.md").read_text().split("\n## ")[1:]:
        rows = re.findall(r"^\| (`.*?`) \| .* \| ([^|]+) \|$", part, re.M)
        out.append({name: licence for names, licence in rows for name in re.findall("`([^`]+)`", names)})
    return out


def libraries(prefix):
    """{library: {the installed files that need it}}, except for Kinora's own."""
    out = {}
    for file in sorted(prefix.rglob("*")):
        if file.is_file() and not file.is_symlink() and file.open("rb").read(4) == b"\x7fELF":
            for name in re.findall(r"NEEDED.*\[(.+?)\]", output_of("readelf", "-dW", file)):
                if not name.startswith("libkinora"):
                    out.setdefault(name, set()).add(file)
    return out


def licence_of(library, licences):
    """Of libfoo.so.3; None: LIBRARIES.md lacks it."""
    return licences.get(library.split(".so")[0])


def debian_packages(names):
    """{library: its package on this machine}, without those that no package has."""
    paths = {}  # a merged /usr has two names for a file
    for name, path in re.findall(r"^\s+(\S+) \(.*\) => (\S+)$", output_of("/sbin/ldconfig", "-p"), re.M):
        if name in names:
            for one in {path, os.path.realpath(path)}:
                paths.update({one: name, one.removeprefix("/usr"): name})
    owners = re.findall(r"^([^:,\s]+)[^/]*: (/.*)$", output_of("dpkg", "-S", *paths), re.M)
    return {paths[path]: owner for owner, path in reversed(owners)}


def versions():
    """{package: its version} of all that are installed."""
    return dict(line.split(" ", 1) for line in output_of("dpkg-query", "-W", "-f=${Package} ${Version}\n").splitlines())


def package(name, version, licence, purl="", supplier=NOT_STATED):
    custom = licence.startswith("LicenseRef-")
    one = {"SPDXID": "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", name), "name": name,
           "downloadLocation": NOT_STATED, "filesAnalyzed": False,
           "licenseConcluded": NOT_STATED, "licenseDeclared": NOT_STATED if custom else licence,
           "copyrightText": NOT_STATED, "supplier": supplier}
    if version:
        one["versionInfo"] = version
    if purl:
        one["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                "referenceLocator": purl}]
    return one


def debian(name, version, licence):
    architecture = output_of("dpkg", "--print-architecture").strip()
    return package(name, version, licence,
                   f"pkg:deb/debian/{name}@{version.replace('+', '%2B')}?arch={architecture}" if version else "",
                   "Organization: Debian")


def bill(prefix):
    said = dict(line.split(None, 1) for line in output_of(prefix / "bin/kinora", "--version").splitlines())
    linked, contained = tables()
    kinora = package("kinora", said["kinora"], "Apache-2.0", supplier="Organization: The Kinora authors")
    kinora["copyrightText"] = "Copyright 2026 The Kinora authors"
    if commit := said.get("commit"):
        kinora["sourceInfo"] = f"commit {commit}"
    needed, version = sorted(libraries(prefix)), versions()
    owners, found = debian_packages(needed), {}  # found by name, since a package has several libraries
    for library in needed:
        licence = licence_of(library, linked)
        if licence is None:
            sys.exit(f"{library} is linked, and packaging/LIBRARIES.md lacks it; add it with its licence")
        if re.match("lib(torch|c10)", library):
            found["torch"] = package("torch", said["libtorch"], licence,
                                     f"pkg:pypi/torch@{said['libtorch']}"), "DYNAMIC_LINK"
        else:
            name = owners.get(library)
            found[name or library] = (debian(name, version[name],
                                             licence) if name else package(library, "", licence)), "DYNAMIC_LINK"
    for name, licence in contained.items():
        found[name] = debian(name, version.get(name, ""), licence), "STATIC_LINK"
    # share/doc/kinora/MEDIA.md, file by file
    found["kinora-media"] = package("kinora-media", said["kinora"], "CC-BY-3.0 AND CC0-1.0"), "CONTAINS"
    half = package("kinora-ray", said["kinora"], "Apache-2.0", supplier="Organization: The Kinora authors")
    ray = package("ray", "", "Apache-2.0", "pkg:pypi/ray")
    packages = [kinora, *(one for one, _ in found.values()), half, ray]
    links = [{"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other["SPDXID"]}
             for one, how, other in (("SPDXRef-DOCUMENT", "DESCRIBES", kinora), ("SPDXRef-DOCUMENT", "DESCRIBES", half),
                                     *((kinora["SPDXID"], how, one) for one, how in found.values()),
                                     (half["SPDXID"], "DEPENDS_ON", kinora), (half["SPDXID"], "DEPENDS_ON", ray))]
    when = datetime.datetime.fromtimestamp(
        int(os.environ.get("SOURCE_DATE_EPOCH") or datetime.datetime.now().timestamp()), datetime.timezone.utc)
    name = f"kinora-{said['kinora']}"
    digest = hashlib.sha256(json.dumps([packages, links]).encode()).hexdigest()
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
            "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{digest[:32]}",
            "creationInfo": {"created": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": ["Organization: The Kinora authors", "Tool: kinora-sbom"]},
            "packages": packages, "relationships": links}


def main():
    prefix, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    whole = bill(prefix)
    out.write_text(json.dumps(whole, indent=1) + "\n")
    print(f"{out}: {len(whole['packages'])} packages")


if __name__ == "__main__":
    main()
