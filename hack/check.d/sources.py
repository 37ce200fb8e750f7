# SPDX-License-Identifier: Apache-2.0
"""What hack/check asks about the sources as a whole. It reads the checkout in the current directory.

    sources.py RULE     prints the places that break the rule, one a line: KEY, or KEY -- DETAIL

The keys hold no line numbers, so that hack/check.d/known.txt can name them. The rules are the functions below; their
tables lie beside this file."""
import collections
import functools
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PRODUCT = ("lib/", "operator/", "csi/", "fuse/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<((?:lib|operator|csi|fuse)/[^>]+)>|(\w[^\n]*))', re.M)
TOKENS = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.S)


@functools.cache
def files(*suffixes):
    """The checkout's files, new ones included."""
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
                         check=True, capture_output=True, text=True).stdout
    return sorted(f for f in set(out.split("\0")) if f.endswith(suffixes) and os.path.isfile(f))


def product(*suffixes):
    return [f for f in files(*suffixes) if f.startswith(PRODUCT)]


@functools.cache
def text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


@functools.cache
def code(path):
    """A source without its comments and literals."""
    return TOKENS.sub(lambda m: '""' if m[0][0] in "\"'" else " ", text(path))


@functools.cache
def prose(path):
    """A source without its literals."""
    return TOKENS.sub(lambda m: '""' if m[0][0] in "\"'" else m[0], text(path))


def includes(path):
    """What a source includes of this tree, be it in quotes or brackets; a macro's name, where it hides the header in one."""
    return ["".join(header) for header in INCLUDE.findall(text(path))]


def table(name):
    """Lines of a table: words, without comments."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        lines = (line.partition("#")[0].split() for line in file)
        return [words for words in lines if words]


@functools.cache
def tags():
    """ctags of the product: dicts with name, kind, path, and file if the name is the file's own."""
    paths = "\n".join(product(".c", ".h"))
    out = subprocess.run(["ctags", "--output-format=json", "--languages=C", "--langmap=C:.c.h", "--kinds-C=fvsgu",
                          "--fields=+KS", "--sort=no", "-L", "-", "-f", "-"],
                         input=paths, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def kinds(*wanted):
    return [tag for tag in tags() if tag["kind"] in wanted and not tag["name"].startswith("__anon")]


# --- rooms ------------------------------------------------------------------------------------------------------------


def rooms():
    """Includes and calls from one room into another that rooms.txt does not allow."""
    allowed = {words[0].rstrip(":"): set(words[1:]) for words in table("rooms.txt")}
    for path in product(".c", ".h"):
        room = os.path.dirname(path)
        if room not in allowed:
            yield f"{room} -- rooms.txt has no line for this room"
            continue
        for header in includes(path):
            other = os.path.dirname(header)
            if other != room and other not in allowed[room]:
                yield f"{path} includes {header} -- {room} stands below {other or 'that'}, or beside it"
    for path, others in calls().items():
        room = os.path.dirname(path)
        for other in others:
            if os.path.dirname(other) not in {room} | allowed.get(room, set()):
                yield f"{path} calls {'/'.join(sorted(others[other]))} -- of {other}, without its header"


PRIVATE = re.compile(r"(priv|/format|/impl|_inside)\.h$")


def may_include(path, header):
    """A private header is its folder's; NAME_priv.h that of the sources NAME*."""
    if os.path.dirname(header) != os.path.dirname(path):
        return False
    module = re.match(r"(\w+)_priv\.h$", os.path.basename(header))
    return not module or os.path.basename(path).startswith(module[1])


def private():
    """Private headers that others include. private.txt names those that may: tests, and the other half of a module."""
    friends = {tuple(words[:2]) for words in table("private.txt")}
    used = set()
    for path in files(".c", ".h"):
        for header in includes(path):
            if PRIVATE.search("/" + header) and not may_include(path, header):
                used.add((path, header))
                if (path, header) not in friends:
                    yield f"{path} includes {header} -- it is private to {os.path.dirname(header)}/"
    for path, header in sorted(friends - used):
        yield f"private.txt: {path} {header} -- is not so any more"


# --- circles ----------------------------------------------------------------------------------------------------------


CALL = re.compile(r"(?<![\w.>])(?<!struct )(?<!enum )([A-Za-z_]\w*) *\(")
INLINE = re.compile(r"^#define (\w+)\(((?:[^\n]*\\\n)*[^\n]*)|^static inline [^;{}]*?(\w+)(\([^;{}]*\)\s*\{(?:[^\n]+\}$|.*?^\}))", re.M | re.S)


@functools.cache
def inlines():
    """{name: names called} of the inline functions and macros in headers: a call of them is a call of what they call."""
    found = collections.defaultdict(set)
    for path in product(".h"):
        for macro, value, function, body in INLINE.findall(code(path)):
            found[macro or function].update(CALL.findall(value or body))
    return found


def called(path):
    """Names that a source calls, itself or by an inline function or macro. A function that it hands over as a pointer is a
    callback, and no call: that is how what is below reaches what is above."""
    names, unseen = set(), CALL.findall(code(path))
    while unseen:
        name = unseen.pop()
        if name not in names:
            names.add(name)
            unseen.extend(inlines().get(name, ()))
    return names


@functools.cache
def calls():
    """{source: {other source: [functions called]}} for functions that are defined in one source and called in another."""
    home = collections.defaultdict(dict)
    own = collections.defaultdict(set)
    for tag in kinds("function"):
        own[tag["path"]].add(tag["name"])
        if not tag.get("file") and tag["path"].endswith(".c"):
            home[tag["name"]][tag["path"].split("/")[0]] = tag["path"]
    graph = collections.defaultdict(lambda: collections.defaultdict(set))
    for path in product(".c"):
        for name in called(path):
            if name in own[path] or name not in home:
                continue
            places = home[name]
            other = places.get(path.split("/")[0]) or places.get("lib") or next(iter(places.values()))
            graph[path][other].add(name)
    return graph


def components(graph):
    """Tarjan's strongly connected components of more than one node."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            circle = [stack.pop()]
            while circle[-1] != node:
                circle.append(stack.pop())
            if len(circle) > 1:
                found.append(sorted(circle))

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def circles():
    """Sources that call each other in a circle: each of them, with what it calls of the others."""
    graph = calls()
    for circle in components(graph):
        for path in circle:
            into = [f"{os.path.basename(other)}:{'/'.join(sorted(graph[path][other]))}"
                    for other in circle if other in graph[path]]
            yield f"{path} -- in a circle of {len(circle)}: calls {', '.join(into)}"


# --- names ------------------------------------------------------------------------------------------------------------


def twice_of(found):
    places = collections.defaultdict(set)
    for tag in found:
        places[tag["name"]].add(tag["path"])
    return {name: sorted(paths) for name, paths in places.items() if len(paths) > 1}


def externals():
    """Functions and variables with external linkage that two sources define."""
    found = [tag for tag in kinds("function", "variable")
             if not tag.get("file") and tag["path"].endswith(".c") and tag["name"] != "main"]
    for name, paths in sorted(twice_of(found).items()):
        yield f"{name} -- {' '.join(paths)}"


def types():
    """Tags of structs, enums and unions that are defined at two places."""
    for name, paths in sorted(twice_of(kinds("struct", "enum", "union")).items()):
        yield f"{name} -- {' '.join(paths)}"


def statics():
    """Names of static functions that two files define, be the other one static or not."""
    found = [tag for tag in kinds("function") if tag["name"] != "main"]
    own = {tag["name"] for tag in found if tag.get("file") or tag["path"].endswith(".h")}
    for name, paths in sorted(twice_of(found).items()):
        if name in own:
            yield f"{name} -- {' '.join(paths)}"


# --- files ------------------------------------------------------------------------------------------------------------


def script(path):
    if path.endswith((".sh", ".py")):
        return True
    return path.startswith(("hack/", ".ci/", "tests/")) and "." not in os.path.basename(path) and text(path).startswith("#!")


def long_files():
    """Files over 500 lines that long.txt does not name."""
    named = {words[0] for words in table("long.txt")}
    seen = set()
    for path in files(""):
        if path.endswith((".c", ".h")) or script(path):
            lines = text(path).count("\n")
            if lines > 500:
                seen.add(path)
                if path not in named:
                    yield f"{path} -- {lines} lines"
    for path in sorted(named - seen):
        yield f"long.txt: {path} -- is not that long any more"


def licences():
    """Sources without an SPDX line in their first three."""
    for path in files(""):
        if path.endswith((".c", ".h", ".proto", "CMakeLists.txt", ".go")) or script(path):
            if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text(path).split("\n", 3)[:3]):
                yield path


def openings():
    """Sources without a comment at their beginning: headers, and .c without a header of their own, but test_NAME.c."""
    for path in files(".c", ".h"):
        if path.endswith(".c") and os.path.isfile(path[:-1] + "h") or os.path.basename(path).startswith("test_"):
            continue
        lines = [line for line in text(path).split("\n") if "SPDX-License-Identifier" not in line]
        if not re.match(r"\s*(#pragma once|#ifndef \w+\s+#define \w+)?\s*/[*/]", "\n".join(lines)):
            yield path


# --- words ------------------------------------------------------------------------------------------------------------


def words():
    """Words of words.txt that are retired, as identifiers or parts of them and in comments."""
    for word, where, *instead in table("words.txt"):
        regex = re.compile(rf"(?<![A-Za-z])(?:{word})(?![a-z])", re.I)
        for path in product(".c", ".h"):
            if re.match(where, path):
                named = os.path.splitext(os.path.basename(path))[0]
                found = regex.search(named) or regex.search(prose(path))
                if found:
                    yield f"{path}: {found[0].lower()} -- the word is {' '.join(instead)}"


RULES = [rooms, private, circles, externals, types, statics, long_files, licences, openings, words]

if __name__ == "__main__":
    rules = {rule.__name__: rule for rule in RULES}
    if len(sys.argv) != 2 or sys.argv[1] not in rules:
        sys.exit(f"{__doc__}\n\n" + "\n".join(f"    {name:12}{rule.__doc__}" for name, rule in rules.items()))
    for place in rules[sys.argv[1]]():
        print(place)
