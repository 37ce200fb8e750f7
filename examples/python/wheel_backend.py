# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel of millrace.py, for pip (PEP 517) and for hack/release: `wheel_backend.py DIRECTORY`. It needs Python alone, and the same
file with the same SOURCE_DATE_EPOCH gives the same bytes."""
import base64
import hashlib
import os
import re
import sys
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))


def build_wheel(directory, config_settings=None, metadata_directory=None):
    with open(os.path.join(HERE, "millrace.py"), encoding="utf-8") as source:
        text = source.read()
    version = re.search(r'^__version__ = "(.*)"$', text, re.MULTILINE).group(1)
    info, name = f"millrace-{version}.dist-info", f"millrace-{version}-py3-none-any.whl"
    files = {
        "millrace.py": text,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: millrace\nVersion: {version}\nLicense: Apache-2.0\nRequires-Python: >=3.8\n"
                            "Summary: What a program may ask of a Millrace mount\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: millrace\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content.encode())}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 315532800)), 315532800))[:6]  # a zip begins in 1980
    os.makedirs(directory, exist_ok=True)
    with zipfile.ZipFile(os.path.join(directory, name), "w", zipfile.ZIP_STORED) as wheel:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, when)
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, content)
    return name


if __name__ == "__main__":
    print(build_wheel(sys.argv[1]))
