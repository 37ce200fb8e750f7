# SPDX-License-Identifier: Apache-2.0
"""A web server that misbehaves: web_odd.py PORT DIRECTORY NOTES. By the first name of a path: nolength (says no lengths, and knows no
ranges), truncated, reset, busy (each third answer only is whole), text (no index page), seen (credentials that it is sent are
written to NOTES)."""
import http.server
import itertools
import os
import shutil
import sys
import urllib.parse

port, root, notes = int(sys.argv[1]), os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
open(notes, "w").close()
count = itertools.count()


class Odd(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def translate_path(self, path):
        path = urllib.parse.unquote(urllib.parse.urlsplit(path).path)
        return os.path.join(root, *path.split("/")[2:]) + ("/" if path.endswith("/") else "")

    def send_header(self, name, value):
        if self.how == "nolength" and name.lower() == "content-length":
            name, value = "Connection", "close"
            self.close_connection = True
        super().send_header(name, value)

    def copyfile(self, source, out):
        if self.how in ("truncated", "reset") and next(count) % 3:
            out.write(source.read(100000))
            out.flush()
            self.close_connection = True
            if self.how == "reset":
                self.connection.close()
            return
        shutil.copyfileobj(source, out)

    def answer(self, serve):
        self.how = self.path.split("/")[1]
        if self.how == "seen" and (self.headers.get("Authorization") or self.headers.get("Cookie")):
            open(notes, "a").write(str(self.headers))
        if self.how == "busy" and next(count) % 3:
            self.send_response(503)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.how == "text":
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"hi" if serve == super().do_GET else b"")
        else:
            serve()

    def do_GET(self):
        self.answer(super().do_GET)

    def do_HEAD(self):
        self.answer(super().do_HEAD)


http.server.ThreadingHTTPServer(("127.0.0.1", port), Odd).serve_forever()
