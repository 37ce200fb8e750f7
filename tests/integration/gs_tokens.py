# SPDX-License-Identifier: Apache-2.0
"""Plays Google's metadata server and token servers for gs_store.sh: gs_tokens.py PORT DIRECTORY.

It gives what is in DIRECTORY/token, for DIRECTORY/lifetime seconds. An assertion is believed if OpenSSL's own program finds it signed by
DIRECTORY/public.pem; a cluster's token if it is what DIRECTORY/subject holds. What was asked for is appended to DIRECTORY/asked.
"""
import base64
import http.server
import json
import os
import subprocess
import sys
import time
import urllib.parse

port, where = int(sys.argv[1]), sys.argv[2]


def held(name):
    with open(os.path.join(where, name), encoding="utf-8") as f:
        return f.read().strip()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def is_signed(assertion):
    head, claims, signature = assertion.split(".")
    with open(os.path.join(where, "signature"), "wb") as f:
        f.write(decoded(signature))
    check = subprocess.run(["openssl", "dgst", "-sha256", "-verify", os.path.join(where, "public.pem"), "-signature",
                            os.path.join(where, "signature")], input=f"{head}.{claims}".encode(), capture_output=True, check=False)
    said = json.loads(decoded(claims))
    return (check.returncode == 0 and json.loads(decoded(head))["alg"] == "RS256" and said["aud"].endswith("/token")
            and said["iat"] <= time.time() + 5 < said["exp"] <= said["iat"] + 3600)


class Tokens(http.server.BaseHTTPRequestHandler):
    def note(self, what):
        with open(os.path.join(where, "asked"), "a", encoding="utf-8") as f:
            f.write(what + "\n")

    def answer(self, status, document):
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def give(self):
        self.answer(200, {"access_token": held("token"), "expires_in": int(held("lifetime")), "token_type": "Bearer"})

    def do_GET(self):
        if self.path != "/computeMetadata/v1/instance/service-accounts/default/token" or self.headers.get("Metadata-Flavor") != "Google":
            return self.answer(404, {})
        self.note("metadata")
        return self.give()

    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        kind = form.get("grant_type", "").rsplit(":", 1)[-1]
        self.note(kind)
        if kind == "jwt-bearer" and is_signed(form["assertion"]):
            return self.give()
        if kind == "token-exchange" and form["subject_token"] == held("subject") and form["audience"].startswith("//iam.googleapis.com/"):
            return self.give()
        return self.answer(400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."})

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", port), Tokens).serve_forever()
