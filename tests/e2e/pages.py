#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of documents, as their readers type them.

    pages.py check FILE…   each fenced block of commands says who runs it; prints the places that do not
    pages.py run FILE      runs the page's blocks in the current directory, and compares what they print with what the page shows

A block is ```console (commands after "$ ", continued by "> ", and what they print) or ```sh (commands alone). Comments say, above a
block, or above the page's first heading for all of its blocks:

    <!-- run by: tests/e2e/NAME.sh -->   that test runs it; the test names the page
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


def check(path):
    page, blocks = read(path)
    for block in blocks:
        notes = {**dict(page), **block.notes} if not {"run by", "not run here"} & block.notes.keys() else block.notes
        if {"file", "yours"} & block.notes.keys() or block.language not in ("sh", "console", "bash", "shell"):
            continue
        if "not run here" in notes:
            continue
        test = notes.get("run by")
        if not test:
            print(f"{path}:{block.line}: who runs this block? <!-- run by: tests/e2e/NAME.sh --> or <!-- not run here: REASON --> above it")
        elif not os.path.exists(test):
            print(f"{path}:{block.line}: there is no {test}")
        elif path not in open(test, encoding="utf-8").read():
            print(f"{path}:{block.line}: {test} does not name this page")


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
        elif block.language in ("sh", "console") and "not run here" not in block.notes:
            for command, shown in block.commands():
                run_one(f"{os.path.basename(path)}:{block.line}", command, shown, differ)
                ran += 1
    if ran == 0:
        sys.exit(f"FAIL: {path}: no command was run")
    print(f"{path}: {ran} commands")


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("check", "run"):
        sys.exit(__doc__)
    for name in sys.argv[2:]:
        (check if sys.argv[1] == "check" else run)(name)
