#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What documents say of the source, compared with it. Prints the places that differ.

    pages.py names     docs/reference/annotations.md has the labels and annotations of lib/base/names.h, and no others
    pages.py reasons   docs/operations/troubleshooting.md has the reasons of conditions, Events and errors, and no others
    pages.py links     what a page links to is there
"""
import glob
import os
import re
import subprocess
import sys

NAMES, NAMES_PAGE = "lib/base/names.h", "docs/reference/annotations.md"
REASONS_PAGE = "docs/operations/troubleshooting.md"
NO_REASONS = "hack/check.d/no_reasons.txt"
REASON = re.compile(r'"([A-Z][a-zA-Z]*[a-z][a-zA-Z]*)"')


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def differ(page, said, known, what):
    for name in sorted(known - said):
        yield f"{page}: {name} -- {what}, and the page does not say it"
    for name in sorted(said - known):
        yield f"{page}: {name} -- is in no source"


def names():
    known = set(re.findall(r'#define (?:LABEL|ANNOTATION|GATE)_\w+\s+"(millrace\.dev/[a-z-]+)"', read(NAMES)))
    said = set(re.findall(r"`(millrace\.dev/[a-z-]+)", read(NAMES_PAGE)))
    yield from differ(NAMES_PAGE, said, known, f"is in {NAMES}")


def sources():
    yield from glob.glob("operator/*/*.c")
    yield from glob.glob("fuse/worker/*.c")
    yield "fuse/store/reason.c"


def reasons():
    """Every CamelCase literal of the rooms that make conditions is a reason, unless no_reasons.txt says what else it is."""
    other = {line.split()[0] for line in read(NO_REASONS).splitlines() if line and not line.startswith("#")}
    literals = {name for path in sources() if os.path.exists(path) for name in REASON.findall(read(path))}
    literals |= {name for path in glob.glob("crds/*.yaml") for name in re.findall(r"^ +reason: ([A-Z]\w+)$", read(path), re.MULTILINE)}
    cells = re.findall(r"^\| (`[A-Z][^|]*)\|", read(REASONS_PAGE), re.MULTILINE)
    said = {name for cell in cells for name in re.findall(r"`([A-Za-z]+)`", cell)}
    yield from differ(REASONS_PAGE, said, literals - other, f"a reason? else it belongs into {NO_REASONS}")
    for name in sorted(other - literals):
        yield f"{NO_REASONS}: {name} -- is in no source"


def anchors(path):
    for heading in re.findall(r"^#+ (.*)$", read(path), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def links():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], check=True, stdout=subprocess.PIPE, text=True)
    for page in listed.stdout.split():
        if not os.path.exists(page):
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|<!--.*?-->", "", read(page), flags=re.DOTALL)):
            path, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(file):
                yield f"{page}: {target} -- is not there"
            elif anchor and file.endswith(".md") and anchor not in anchors(file):
                yield f"{page}: {target} -- {file} has no such heading"


if __name__ == "__main__":
    for line in {"names": names, "reasons": reasons, "links": links}[sys.argv[1]]():
        print(line)
