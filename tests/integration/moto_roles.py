# SPDX-License-Identifier: Apache-2.0
"""moto as a cloud with roles: S3, STS and IAM, which judges each request; the metadata services of a machine and of a container.

moto_roles.py ADDRESS:PORT…   serves all of it at each address until it is killed; prints "ready"
moto_roles.py many ADDRESS:PORT…   with 2,500 keys below many/ in bucket data, as s3_live.c has them

Of moto: buckets, keys, signatures, policies of users and roles, trust policies of AssumeRole. Added here, because moto has it not:
tokens of an OIDC issuer (a JWT by HS256 with the key "issuer"; audience and end are looked at), loans that end, metadata services
that want a token and give loans, requests that are not signed (bucket "public" takes them). What is asked for:

  users trainer (AKIATRAINER, may assume roles, sees no bucket) and reader (AKIAREADER or testaccess, reads and writes all)
  roles reader     trainer and role hop may assume it, who knows the external id "blue"
        hop        trainer and tokens; may assume roles, sees no bucket
        token      tokens only
        brief      as token; the server ends its loans 11 s after they began, and says an hour
        stranger   somebody else's
        node       what the metadata services give
  a part of an upload to a key that begins with slow/ takes 3 s
"""
import base64
import datetime
import hashlib
import hmac
import json
import sys
import threading
import time

from moto import settings
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT
from moto.core.authorization import ActionAuthenticatorMixin
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.s3.exceptions import S3AccessDeniedError
from moto.s3.models import s3_backends
from moto.sts.exceptions import STSClientError
from moto.sts.models import STSBackend, sts_backends
from werkzeug.serving import make_server

ROLES = f"arn:aws:iam::{ACCOUNT}:role/"
TRAINER = f"arn:aws:iam::{ACCOUNT}:user/trainer"
iam, s3, sts = iam_backends[ACCOUNT]["aws"], s3_backends[ACCOUNT]["aws"], sts_backends[ACCOUNT]["aws"]
ended = {}


def allow(*actions):
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]})


def trust(*principals, **conditions):
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": list(principals)}}
    if conditions:
        statement["Condition"] = {"StringEquals": {"sts:ExternalId": conditions["external_id"]}}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def add_user(name, key_id, secret, policy):
    iam.create_user("us-east-1", name)
    iam.put_user_policy(name, "own", policy)
    key = iam.create_access_key(name)
    key.access_key_id, key.secret_access_key = key_id, secret


def add_role(name, trusted, policy):
    iam.create_role(name, trusted, "/", None, "", [], 3600)
    iam.put_role_policy(name, "own", policy)


def furnish():
    add_user("trainer", "AKIATRAINER", "trainersecret", allow("sts:AssumeRole"))
    add_user("reader", "AKIAREADER", "readersecret", allow("s3:*"))
    add_user("tester", "testaccess", "testsecret123", allow("s3:*"))
    hop = f"arn:aws:sts::{ACCOUNT}:assumed-role/hop/"
    add_role("reader", trust(TRAINER, hop + "test", hop + "millrace", external_id="blue"), allow("s3:*"))
    add_role("hop", trust(TRAINER), allow("sts:AssumeRole"))
    add_role("stranger", trust(f"arn:aws:iam::{ACCOUNT}:user/nobody"), allow("s3:*"))
    for name in ("token", "brief", "node"):
        add_role(name, trust("nobody"), allow("s3:*"))
    for name in ("data", "public"):
        s3.create_bucket(name, "us-east-1")
        s3.put_object(name, "set/one", f"one in {name}\n".encode())


def add_many():
    for i in range(2500):
        s3.put_object("data", f"many/d/sub{i:04}/x" if i % 500 == 0 else f"many/d/f{i:04}", b"x" if i % 500 == 0 else b"hello")


# -- the token service --------------------------------------------------------------------------------

def refuse(code, message):
    raise STSClientError(code, message)


lend = STSBackend.assume_role


def assume_role(self, **kwargs):
    name = kwargs["role_arn"].rsplit("/", 1)[-1]
    loan = lend(self, **kwargs)
    if name == "brief":
        ended[loan.access_key_id] = time.time() + 11
    return loan


def decode(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def with_web_identity(self, **kwargs):
    from flask import request
    token = request.form["WebIdentityToken"]
    head, body, signature = token.split(".")
    good = hmac.new(b"issuer", f"{head}.{body}".encode(), hashlib.sha256).digest()
    claims = json.loads(decode(body))
    if not hmac.compare_digest(good, decode(signature)):
        refuse("InvalidIdentityToken", "No OpenIDConnect provider found in your account for the issuer")
    if claims["aud"] != "sts.amazonaws.com":
        refuse("InvalidIdentityToken", "Incorrect token audience")
    if claims["exp"] < time.time():
        refuse("ExpiredTokenException", "Token expired")
    if kwargs["role_arn"].rsplit("/", 1)[-1] not in ("token", "brief", "hop"):
        refuse("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
    return self.assume_role(**kwargs)


authorize = ActionAuthenticatorMixin._authenticate_and_authorize_action


def judge(self, iam_request_cls, resource="*"):
    if self.headers.get("Authorization"):
        return authorize(self, iam_request_cls, resource)
    if self._get_action() == "AssumeRoleWithWebIdentity" or ":::public" in resource:
        return None
    raise S3AccessDeniedError()


# -- the metadata services, and loans that end ------------------------------------------------------------

def loan_json():
    loan = sts.assume_role(region_name="us-east-1", role_session_name="i-1", role_arn=ROLES + "node", policy=None, duration=3600,
                           external_id=None)
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    return json.dumps({"Code": "Success", "AccessKeyId": loan.access_key_id, "SecretAccessKey": loan.secret_access_key,
                       "Token": loan.session_token, "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ")})


def metadata(environ):
    """Of the machine, version 2 alone: without a token that was fetched before, nothing."""
    if environ["PATH_INFO"] == "/latest/api/token" and environ["REQUEST_METHOD"] == "PUT":
        return None
    if environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN") != "fake-imdsv2-token":
        return "401 Unauthorized", ""
    if environ["PATH_INFO"].endswith("/default-role"):
        return "200 OK", loan_json()
    return None


def container(environ):
    if environ["PATH_INFO"] != "/v2/credentials/task" or environ.get("HTTP_AUTHORIZATION", "task") != "task":
        return "403 Forbidden", "{}"
    return "200 OK", loan_json()


def expired(environ):
    key = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
    if ended.get(key, time.time() + 1) > time.time():
        return None
    return "400 Bad Request", "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"


def around(app):
    def serve(environ, start_response):
        host = environ.get("HTTP_HOST", "")
        path = environ["PATH_INFO"]
        if path.startswith("/data/slow/") and "partNumber" in environ.get("QUERY_STRING", ""):
            time.sleep(3)
        answer = (metadata(environ) if host == "169.254.169.254" else container(environ) if host == "169.254.170.2"
                  else expired(environ))
        if answer is None:
            return app(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(answer[0], [("Content-Type", "text/plain"), ("Content-Length", str(len(answer[1])))])
        return [answer[1].encode()]
    return serve


class Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, code="-", size="-"):
        print(time.strftime("%H:%M:%S"), self.command, self.path, code, flush=True)


def main():
    furnish()
    STSBackend.assume_role = assume_role
    STSBackend.assume_role_with_web_identity = with_web_identity
    ActionAuthenticatorMixin._authenticate_and_authorize_action = judge
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    app = around(DomainDispatcherApplication(create_backend_app))
    for at in sys.argv[1:]:
        if at == "many":
            add_many()
            continue
        host, port = at.rsplit(":", 1)
        server = make_server(host, int(port), app, threaded=True, request_handler=Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


main()
