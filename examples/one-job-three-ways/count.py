# SPDX-License-Identifier: Apache-2.0
"""Reads each record of its part of the files and writes what it found, a line a file. Which part is its own, it is told by whoever starts it:
a Job, torchrun or a TFJob. Python alone."""
import argparse
import glob
import hashlib
import json
import os
import struct


def place(environ):
    """This process's number, and how many there are."""
    if "TF_CONFIG" in environ:  # TFJob
        config = json.loads(environ["TF_CONFIG"])
        hosts, task = config["cluster"]["worker"], config["task"]
        return task["index"], len(hosts)
    if "RANK" in environ:  # torchrun
        return int(environ["RANK"]), int(environ["WORLD_SIZE"])
    return int(environ.get("JOB_COMPLETION_INDEX", 0)), int(environ.get("COMPLETIONS", 1))  # Indexed Job


def records(path):
    """Of a TFRecord file: length, its check, the bytes, their check."""
    with open(path, "rb") as file:
        while head := file.read(12):
            size, = struct.unpack_from("<Q", head)
            record = file.read(size)
            if len(record) < size or len(file.read(4)) < 4:
                raise SystemExit(f"{path}: ends within a record")
            yield record


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="/mnt/fuse/train")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    number, of = place(os.environ)
    os.makedirs(args.out, exist_ok=True)
    part = f"{args.out}/part-{number:05d}"
    with open(part + ".tmp", "w", encoding="utf-8") as out:
        for path in sorted(glob.glob(f"{args.data}/*.tfrecord"))[number::of]:
            digest, count = hashlib.sha256(), 0
            for record in records(path):
                digest.update(record)
                count += 1
            print(os.path.basename(path), count, digest.hexdigest(), file=out)
    os.replace(part + ".tmp", part)
    print(f"{number} of {of}: {part}", flush=True)


if __name__ == "__main__":
    main()
