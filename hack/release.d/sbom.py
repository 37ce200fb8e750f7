# SPDX-License-Identifier: Apache-2.0
"""The list of what an image is made of, as SPDX 2.3 JSON: this project at its commit, each Debian package of which the image has
files or that is linked into a program, with its version and licences, and each file with its sums.

    sbom.py make TREE SYSROOT NAME VERSION ARCH COMMIT EPOCH     prints it; TREE is the image's root directory
    sbom.py check SBOM IMAGE.tar                                 prints what the image (a docker archive) has and the SBOM lacks,
                                                                 or says otherwise; exits 1 if that is anything
"""
import datetime
import hashlib
import io
import json
import os
import re
import sys
import tarfile

# Debian's short names of licences, and SPDX's. What is not here is given in its own words.
NAMES = {
    "0bsd": "0BSD", "apache": "Apache-2.0", "apache-2": "Apache-2.0", "apache-2.0": "Apache-2.0", "artistic": "Artistic-1.0-Perl",
    "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause", "bsd-4-clause": "BSD-4-Clause",
    "boost-1.0": "BSL-1.0", "bsl-1.0": "BSL-1.0", "cc0": "CC0-1.0", "cc0-1.0": "CC0-1.0", "curl": "curl", "expat": "MIT", "mit": "MIT",
    "isc": "ISC", "zlib": "Zlib", "mpl-2.0": "MPL-2.0", "openssl": "OpenSSL",
    "gpl-2": "GPL-2.0-only", "gpl-2+": "GPL-2.0-or-later", "gpl-2.0+": "GPL-2.0-or-later", "gpl-3": "GPL-3.0-only",
    "gpl-3+": "GPL-3.0-or-later", "gpl-3.0+": "GPL-3.0-or-later", "lgpl-2": "LGPL-2.0-only", "lgpl-2+": "LGPL-2.0-or-later",
    "lgpl-2.0+": "LGPL-2.0-or-later", "lgpl-2.1": "LGPL-2.1-only", "lgpl-2.1+": "LGPL-2.1-or-later", "lgpl-3": "LGPL-3.0-only",
    "lgpl-3+": "LGPL-3.0-or-later", "lgpl-3.0+": "LGPL-3.0-or-later",
}


def slug(text):
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-") or "unnamed"


def stanzas(text):
    """Paragraphs of a Debian control file as dictionaries."""
    for part in re.split(r"\n[ \t]*\n", text):
        fields, name = {}, None
        for line in part.splitlines():
            if line[:1] in " \t" and name:
                fields[name] += "\n" + line[1:]
            elif ":" in line and not line.startswith("#"):
                name, value = line.split(":", 1)
                fields[name] = value.strip()
        if fields:
            yield fields


def licences(package, text):
    """An SPDX expression of a package's copyright file, and the texts of the licences that SPDX has no name for."""
    extracted = {}

    def own(name, body):
        ident = "LicenseRef-Debian-" + slug(package + ("-" + name if name else ""))
        extracted[ident] = body.strip() or name
        return ident

    if not text.startswith("Format:"):
        return own("", text), extracted
    parts = list(stanzas(text))
    bodies = {}
    for fields in parts:
        name, _, body = fields.get("License", "").partition("\n")
        if body.strip():
            bodies.setdefault(name.strip(), body)
    terms = set()
    for name in {f["License"].partition("\n")[0].strip() for f in parts if "License" in f and "Files" in f} - {""}:
        words = [NAMES.get(word.strip(" ,").lower()) for word in re.split(r"\s+or\s+|\s*\|\s*", name)]
        terms.add("(" + " OR ".join(words) + ")" if all(words) and len(words) > 1 else
                  words[0] if all(words) else own(name, bodies.get(name, "")))
    return " AND ".join(sorted(terms)) or own("", text), extracted


def sums(data):
    return [{"algorithm": name.upper(), "checksumValue": getattr(hashlib, name)(data).hexdigest()} for name in ("sha1", "sha256")]


def analyzed(package, sha1s):
    """What SPDX asks of a package that names its files: one sum over theirs."""
    package["filesAnalyzed"] = True
    package["packageVerificationCode"] = {"packageVerificationCodeValue": hashlib.sha1("".join(sorted(sha1s)).encode()).hexdigest()}


def files_of(tree):
    for top, dirs, names in os.walk(tree):
        dirs.sort()
        for name in sorted(names):
            path = os.path.join(top, name)
            if not os.path.islink(path) and os.path.isfile(path):
                yield "/" + os.path.relpath(path, tree)


def merged(path):
    return re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", path)


def owners(sysroot):
    """Of each path in the sysroot: the package."""
    info, found = os.path.join(sysroot, "var/lib/dpkg/info"), {}
    for name in sorted(os.listdir(info)):
        if name.endswith(".list"):
            with open(os.path.join(info, name), encoding="utf-8") as lines:
                found.update((merged(line.rstrip("\n")), name[:-5].split(":")[0]) for line in lines)
    return found


def owner_of(path, packages, known):
    match = re.match(r"/(?:usr/share/doc|var/lib/dpkg/status\.d)/([^/]+)", path)
    if match and match.group(1) in packages:
        return match.group(1)
    if path == "/etc/ssl/certs/ca-certificates.crt":
        return "ca-certificates"
    return known.get(merged(path)) if known.get(merged(path)) in packages else None


def debian_package(fields, tree, extracted):
    name, arch = fields["Package"], fields["Architecture"]
    with open(os.path.join(tree, "usr/share/doc", name, "copyright"), encoding="utf-8", errors="replace") as file:
        expression, texts = licences(name, file.read())
    extracted.update(texts)
    version = fields["Version"]
    source = fields.get("Source", name)
    return {
        "SPDXID": "SPDXRef-Package-" + slug(name), "name": name, "versionInfo": version,
        "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "sourceInfo": "built by Debian from the source package " + (source if "(" in source else f"{source} ({version})"),
        "licenseConcluded": "NOASSERTION", "licenseDeclared": expression, "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={arch}&distro=debian-12"}],
    }


def make(tree, sysroot, name, version, arch, commit, epoch):
    status = os.path.join(tree, "var/lib/dpkg/status.d")
    packages, extracted, files, relations = {}, {}, [], []
    for package in sorted(os.listdir(status)):
        with open(os.path.join(status, package), encoding="utf-8") as file:
            packages[package] = debian_package(next(stanzas(file.read())), tree, extracted)
    known, with_files, contents = owners(sysroot), set(), {}

    def relate(one, kind, other):
        relations.append({"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other})

    for number, path in enumerate(files_of(tree)):
        with open(os.path.join(tree, path[1:]), "rb") as file:
            data = file.read()
        ident, owner = f"SPDXRef-File-{number}", owner_of(path, packages, known)
        files.append({"SPDXID": ident, "fileName": "." + path, "checksums": sums(data),
                      "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"})
        relate(packages[owner]["SPDXID"] if owner else "SPDXRef-Millrace", "CONTAINS", ident)
        contents.setdefault(owner, []).append(files[-1]["checksums"][0]["checksumValue"])
        if owner and not re.match(r"/(usr/share/doc|var/lib/dpkg)/", path):
            with_files.add(owner)
    relate("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image")
    relate("SPDXRef-Image", "CONTAINS", "SPDXRef-Millrace")
    for package, fields in packages.items():
        if package in with_files:
            relate("SPDXRef-Image", "CONTAINS", fields["SPDXID"])
        else:
            relate("SPDXRef-Millrace", "STATIC_LINK", fields["SPDXID"])
    common = {"versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "supplier": "NOASSERTION",
              "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"}
    millrace = dict(common, SPDXID="SPDXRef-Millrace", name="millrace", primaryPackagePurpose="APPLICATION",
                    sourceInfo=f"built from commit {commit}", licenseDeclared="Apache-2.0")
    for owner, sha1s in contents.items():
        analyzed(packages[owner] if owner else millrace, sha1s)
    created = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name} {version} {arch}",
        "documentNamespace": f"https://millrace.dev/spdx/{name}-{version}-{arch}-{commit}",
        "creationInfo": {"created": created, "creators": ["Tool: hack/release"]},
        "packages": [
            dict(common, SPDXID="SPDXRef-Image", name=f"{name} image for linux/{arch}", primaryPackagePurpose="CONTAINER",
                 licenseDeclared="NOASSERTION"),
            millrace,
        ] + list(packages.values()),
        "files": files, "relationships": relations,
        "hasExtractedLicensingInfos": [{"licenseId": i, "extractedText": t, "name": i[len("LicenseRef-Debian-"):]}
                                       for i, t in sorted(extracted.items())],
    }


def image_files(archive):
    """Regular files of the layers of a docker archive, by path, with their contents."""
    with tarfile.open(archive) as outer:
        for layer in json.load(outer.extractfile("manifest.json"))[0]["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(outer.extractfile(layer).read())) as inner:
                for entry in inner:
                    if entry.isreg():
                        yield entry.name, inner.extractfile(entry).read()


def check(sbom, archive):
    with open(sbom, encoding="utf-8") as file:
        document = json.load(file)
    listed = {f["fileName"]: {c["algorithm"]: c["checksumValue"] for c in f["checksums"]} for f in document["files"]}
    packages = {(p["name"], p["versionInfo"]) for p in document["packages"]}
    present = dict(image_files(archive))
    for path, data in sorted(present.items()):
        if listed.get(path, {}).get("SHA256") != hashlib.sha256(data).hexdigest():
            yield f"{path}: " + ("another sum" if path in listed else "not listed")
        if path.startswith("./var/lib/dpkg/status.d/"):
            fields = next(stanzas(data.decode()))
            if (fields["Package"], fields["Version"]) not in packages:
                yield f"package {fields['Package']} {fields['Version']}: not listed"
    for path in sorted(set(listed) - set(present)):
        yield f"{path}: listed, and not in the image"
    defined = {e["SPDXID"] for e in document["packages"] + document["files"]} | {"SPDXRef-DOCUMENT"}
    for relation in document["relationships"]:
        for end in (relation["spdxElementId"], relation["relatedSpdxElement"]):
            if end not in defined:
                yield f"{end}: in a relation, and not defined"


def main(arguments):
    if len(arguments) == 8 and arguments[0] == "make":
        json.dump(make(*arguments[1:]), sys.stdout, indent=1, sort_keys=True)
        print()
        return 0
    if len(arguments) == 3 and arguments[0] == "check":
        wrong = list(check(*arguments[1:]))
        print("\n".join(wrong), end="\n" if wrong else "")
        return 1 if wrong else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
