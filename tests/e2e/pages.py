#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of documents, as their readers type them.

    pages.py check FILE…   each fenced block of commands says who runs it, and commands of ours in the text are such that there are; prints
                           the places that do not
    pages.py manifests FILE…   prints the Datasets of ```yaml blocks; of a block that begins with "  mounts:", one that has these
    pages.py block FILE N  prints the Nth block of commands
    pages.py run FILE      runs the page's blocks in the current directory, and compares what they print with what the page shows

A block is ```console (commands after "$ ", continued by "> ", and what they print) or ```sh (commands alone). Comments say, above a
block, or above the page's first heading for all of its blocks:

    <!-- run by: tests/e2e/NAME.sh -->   that test runs it: it has `pages.py run PAGE`, or `page_block PAGE N` (lib.sh), or the block's
                                         commands up to their first flag or placeholder, word for word
    <!-- not run here: REASON -->
    <!-- file: NAME -->                  the block is saved under that name (any language)
    <!-- yours: NAME -->                 the reader writes this file; the test has put its own there
    <!-- may differ: REGEX -->           of the whole page: such words are taken as equal

A line "..." among what is shown stands for any lines.
"""
import os
import re
import subprocess
import sys
import time

COMMENT = re.compile(r"^\s*<!-- (run by|not run here|file|yours|may differ): (.*?) -->\s*$")
COMMANDS = ("sh", "console", "bash", "shell")
PLACEHOLDER = re.compile(r"-|.*(…|\.example|[A-Z]{2})")
TYPED = re.compile(r"^\s*(\$ |(kubectl|helm|millrace|hack/\w+|docker|podman|crane) [a-z-])")  # a command, whatever the block is called
OURS = re.compile(r"`((?:(?:kubectl )?millrace|hack/\w+) [^`]+|hack/\w+)`")  # a command of ours in the text
CLI_PAGE = "docs/reference/cli.md"
TEST = re.compile(r"tests/((e2e|programs)/\d\d_|integration/)\w+\.sh")  # what hack/test runs
SAID = re.compile(r"(step|echo|printf|fail)\b(?!.*\|)")  # a line that prints a command, and does not run it
LOOKS = re.compile(r"^kubectl (-n \S+ )?(get|logs|describe|millrace)\b")  # may be repeated until it shows what is expected
PATIENCE = 90


class Block:
    def __init__(self, line, language, notes):
        self.line, self.language, self.notes, self.text = line, language, notes, []

    def commands(self):
        """Pairs of a command and the lines that it is shown to print (None: whatever it prints)."""
        if self.language != "console":
            return [("\n".join(self.text), None)]
        pairs = []
        for line in self.text:
            if line.startswith("$ "):
                pairs.append((line[2:], []))
            elif line.startswith("> ") and pairs and not pairs[-1][1]:
                pairs[-1] = (pairs[-1][0] + "\n" + line[2:], [])
            elif pairs:
                pairs[-1][1].append(line)
        return [(command, shown or None) for command, shown in pairs]


def read(path):
    """The page's notes, a list of (kind, text), and its blocks."""
    page, notes, blocks, block, heading = [], [], [], None, False
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            fence = re.match(r"^\s*```(\S*)", line)
            if block:
                if fence:
                    blocks.append(block)
                    block, notes = None, []
                else:
                    block.text.append(line)
            elif fence:
                block = Block(number, fence.group(1), dict(notes))
            elif comment := COMMENT.match(line):
                (notes if heading and comment.group(1) != "may differ" else page).append(comment.groups())
            elif line.strip():
                heading = heading or line.startswith("#")
                notes = []
    if block:
        sys.exit(f"{path}:{block.line}: the block does not end")
    return page, blocks


def beginnings(block):
    """Of each command, the words before its first flag, placeholder or comment; the program alone says nothing: up to the second flag."""
    text = "\n".join(command for command, _ in block.commands())
    for line in text.replace("\\\n", " ").splitlines():
        words = []
        for word in line.split():
            if word.startswith("#") or len(words) > 1 and PLACEHOLDER.match(word):
                break
            words.append(word)
        if words:
            yield " ".join(words)


def why_not_run(test, page, number, block):
    """What the test lacks to run the page's block of that number; None: it runs it."""
    with open(test, encoding="utf-8") as source:
        code = [line.strip() for line in source if not line.lstrip().startswith("#")]
    code = [line for line in code if not SAID.match(line)]
    if page not in "\n".join(code):
        where = "does not name this page"
    elif any(re.search(rf'pages\.py"? run \S*{re.escape(page)}|page_block {re.escape(page)} {number}\b', line) for line in code):
        return None
    else:
        where = f"does not run its block {number}"
    text = re.sub(r"\s+", " ", "\n".join(code).replace("\\\n", " "))
    missing = [words for words in beginnings(block) if words not in text]
    return f"{where}, and has no '{missing[0]}'" if missing else None


def command_blocks(blocks):
    return [block for block in blocks if block.language in COMMANDS and not {"file", "yours"} & block.notes.keys()]


def print_block(path, number):
    print("\n".join(command for command, _ in command_blocks(read(path)[1])[int(number) - 1].commands()))


def check_inline(path):
    """Commands of ours in the text: there are such verbs, with such flags, and such programs."""
    with open(CLI_PAGE, encoding="utf-8") as page:
        verbs = {part.split("\n", 1)[0]: part for part in page.read().split("\n## ")[1:]}
    with open(path, encoding="utf-8") as page:
        text = re.sub(r"^\s*```.*?^\s*```", lambda block: "\n" * block.group().count("\n"), page.read(), flags=re.DOTALL | re.MULTILINE)
    for at in OURS.finditer(text):
        place, words = f"{path}:{text.count(chr(10), 0, at.start()) + 1}", at.group(1).split()
        if words[0].startswith("hack/"):
            if not os.access(words[0], os.X_OK):
                print(f"{place}: there is no {words[0]}")
            continue
        words = words[words.index("millrace") + 1:]
        if re.fullmatch(r"[A-Z|…]*", words[0]) or words[0].startswith("-"):
            continue
        if words[0] not in verbs:
            print(f"{place}: millrace has no verb {words[0]}")
            continue
        for flag in re.findall(r"--[a-z][a-z-]*", " ".join(words)):
            if f"`{flag}" not in verbs[words[0]] and flag != "--help":
                print(f"{place}: millrace {words[0]} has no flag {flag}")


def check(path):
    page, blocks = read(path)
    for number, block in enumerate(command_blocks(blocks), 1):
        notes = {**dict(page), **block.notes} if not {"run by", "not run here"} & block.notes.keys() else block.notes
        if len(notes.get("not run here", "")) > 2:
            continue
        test = notes.get("run by")
        if not test:
            print(f"{path}:{block.line}: who runs this block? <!-- run by: tests/e2e/NAME.sh --> or <!-- not run here: REASON --> above it")
        elif not os.path.exists(test):
            print(f"{path}:{block.line}: there is no {test}")
        elif not TEST.fullmatch(test):
            print(f"{path}:{block.line}: {test} is no test that hack/test runs")
        elif why := why_not_run(test, path, number, block):
            print(f"{path}:{block.line}: {test} {why}")
    check_inline(path)
    for block in blocks:
        if block.language not in COMMANDS and not {"file", "yours"} & block.notes.keys() and (typed := list(filter(TYPED.match, block.text))):
            print(f"{path}:{block.line}: a block of commands is called sh or console: {typed[0].strip()}")


def manifests(path):
    """A fragment's Dataset is named for the place."""
    for block in read(path)[1]:
        text = "\n".join(block.text)
        if block.language == "yaml" and text.startswith("  mounts:"):
            name = f"{os.path.basename(path).removesuffix('.md')}-{block.line}"
            text = f"apiVersion: millrace.dev/v1alpha1\nkind: Dataset\nmetadata: {{name: {name}}}\nspec:\n{text}"
        if block.language == "yaml" and re.search(r"^kind: Dataset$", text, re.MULTILINE):
            print(f"---\n{text}")


def plain(lines, differ):
    result = []
    for line in lines:
        for regex in differ:
            line = re.sub(regex, "~", line)
        line = re.sub(r"\s+", " ", line).strip()
        if line:
            result.append(line)
    return result


def same(shown, printed):
    """Do the lines match, where "..." is any lines?"""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(same(shown[1:], printed[at:]) for at in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and same(shown[1:], printed[1:])


def run_command(command):
    """Status and output; what it exports stays for the next one."""
    script = "[ ! -e .exports ] || . ./.exports\n" + command + "\nstatus=$?\nexport -p >.exports\nexit $status"
    done = subprocess.run(["bash", "-e", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, timeout=600)
    return done.returncode, done.stdout.decode(errors="replace").splitlines()


def run_one(place, command, shown, differ):
    end = time.monotonic() + PATIENCE
    while True:
        status, printed = run_command(command)
        good = status == 0 and (shown is None or same(plain(shown, differ), plain(printed, differ)))
        if good or not LOOKS.match(command) or time.monotonic() > end:
            break
        time.sleep(1)
    print(f"{place}: $ {command}", *printed, sep="\n    ", flush=True)
    if status != 0:
        sys.exit(f"FAIL: {place}: status {status}: {command}")
    if not good:
        sys.exit("\n    ".join([f"FAIL: {place}: `{command}` prints other lines than the page shows:", *(shown or [])]))


def run(path):
    page, blocks = read(path)
    differ = [text for kind, text in page if kind == "may differ"]
    ran = 0
    for block in blocks:
        if "file" in block.notes:
            os.makedirs(os.path.dirname(block.notes["file"]) or ".", exist_ok=True)
            with open(block.notes["file"], "w", encoding="utf-8") as out:
                out.write("\n".join(block.text) + "\n")
        elif "yours" in block.notes:
            if not os.path.exists(block.notes["yours"]):
                sys.exit(f"FAIL: {path}:{block.line}: the test has not made {block.notes['yours']}")
        elif block.language in COMMANDS and "not run here" not in block.notes:
            for command, shown in block.commands():
                run_one(f"{os.path.basename(path)}:{block.line}", command, shown, differ)
                ran += 1
    if ran == 0:
        sys.exit(f"FAIL: {path}: no command was run")
    print(f"{path}: {ran} commands")


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "block":
        sys.exit(print_block(*sys.argv[2:]))
    modes = {"check": check, "manifests": manifests, "run": run}
    if len(sys.argv) < 3 or sys.argv[1] not in modes:
        sys.exit(__doc__)
    for name in sys.argv[2:]:
        modes[sys.argv[1]](name)
