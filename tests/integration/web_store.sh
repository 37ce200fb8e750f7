#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: web
# The store of web servers, by the verbs of `millrace`, against nginx, Apache and Python's http.server, and against one that
# misbehaves (web_odd.py).  web_store.sh PROGRAM (millrace)
set -euo pipefail
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"
here=$(dirname "$(readlink -f "$0")")
WORK=$(mktemp -d "${TMPDIR:-/tmp}/millrace-web.XXXXXX")
chmod 755 "$WORK"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; cd /; rm -rf "$WORK"' EXIT
millrace=$1
cd "$WORK"
unset http_proxy HTTP_PROXY https_proxy all_proxy ALL_PROXY
for program in /usr/sbin/nginx /usr/sbin/apache2; do
    [ -x "$program" ] || { echo "SKIP: no $program; hack/setup web installs it"; exit 77; }
done

mkdir -p tree/sub/deeper "tree/with space" tree/empty tree/many
head -c 3000000 /dev/urandom >tree/big
echo one >tree/sub/one
echo two >tree/sub/deeper/two
echo three >"tree/with space/a+b%41&c's ü#x?.txt"
: >tree/sub/nothing
for i in $(seq 300); do echo "$i" >"tree/many/f$i"; done
(cd tree && find . -type f | sed 's|^\./||' | sort) >files
printf 'lists/../x\n' >tree/bad.list
(cd tree && find . -type f ! -name '*.list' ! -path './many/*' -printf '%P\t%s\n') | grep -v "#" >tree/files.list
printf '# a comment\n\nsub/one\n' >>tree/files.list
sort -u -o files files <(echo bad.list) <(echo files.list)

port() # a free one
{
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

up() # PORT
{
    for _ in $(seq 200); do
        if (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return 0; fi
        sleep 0.05
    done
    echo "nothing at port $1" >&2
    return 1
}

nginx=$(port) apache=$(port) python=$(port) odd=$(port)
printf 'reader:%s\n' "$(openssl passwd -apr1 hushhush)" >passwords
cat >nginx.conf <<END
daemon off; pid $WORK/nginx.pid; error_log $WORK/nginx.log; user root; worker_processes 1;
events {}
http {
    access_log off; client_body_temp_path $WORK/t1; proxy_temp_path $WORK/t2; fastcgi_temp_path $WORK/t3; uwsgi_temp_path $WORK/t4;
    scgi_temp_path $WORK/t5;
    server {
        listen 127.0.0.1:$nginx; root $WORK/tree; autoindex on; default_type application/octet-stream;
        location /closed/ { alias $WORK/tree/; autoindex on; auth_basic "x"; auth_basic_user_file $WORK/passwords; }
        location /moved/ { rewrite ^/moved/(.*)\$ http://127.0.0.1:$odd/seen/\$1 redirect; }
        location /unlisted/ { alias $WORK/tree/; autoindex off; }
        location /circle { return 302 /circle; }
        location = /sub/deeper/broken { return 500; }
    }
}
END
/usr/sbin/nginx -c "$WORK/nginx.conf" -p "$WORK" 2>/dev/null &
pids+=($!)
modules=/usr/lib/apache2/modules
cat >apache.conf <<END
ServerRoot $WORK
ServerName localhost
PidFile $WORK/apache.pid
ErrorLog $WORK/apache.log
Listen 127.0.0.1:$apache
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule dir_module $modules/mod_dir.so
LoadModule autoindex_module $modules/mod_autoindex.so
DocumentRoot $WORK/tree
<Directory $WORK/tree>
    Options Indexes
    IndexOptions FancyIndexing NameWidth=*
    Require all granted
</Directory>
END
APACHE_RUN_DIR=$WORK /usr/sbin/apache2 -f "$WORK/apache.conf" -DFOREGROUND 2>/dev/null &
pids+=($!)
python3 -m http.server --bind 127.0.0.1 --directory tree "$python" >/dev/null 2>&1 &
pids+=($!)
python3 "$here/web_odd.py" "$odd" tree seen >/dev/null 2>odd.log &
pids+=($!)
for one in $nginx $apache $python $odd; do up "$one"; done

for server in "nginx $nginx" "Apache $apache" "http.server $python" "one without lengths $odd/nolength"; do
    name=${server% *} url=http://127.0.0.1:${server##* }
    run "$millrace" ls --recursive "$url"
    is "$name: all files" "$(cat files)" "$(sort <<<"$out")"
    run "$millrace" ls "$url/sub"
    is "$name: a directory" "deeper/ nothing one" "$(sort <<<"$out" | xargs)"
    run "$millrace" cp --recursive "$url" "copy-${name// /-}"
    is "$name: a copy" "0:" "$status:$(diff -r -x empty tree "copy-${name// /-}" 2>&1)"
    run "$millrace" stat "$url/big"
    has "$name: a file's size" "3000000" "$out"
    run "$millrace" stat "$url/sub"
    has "$name: a directory is one" "directory" "$out"
    run "$millrace" stat "$url/none"
    has "$name: no such file" "NotFound" "$out"
    run "$millrace" cp tree/big "$url/new"
    has "$name: nothing is written" "read-only" "$out"
done

url=http://127.0.0.1:$nginx
before=$("$millrace" stat "$url/sub/one" | grep version)
echo another >tree/sub/one
is "another content is another version" different "$([ "$before" = "$("$millrace" stat "$url/sub/one" | grep version)" ] || echo different)"

run "$millrace" ls "$url/closed"
has "without credentials it is refused" "AccessDenied (401): no credentials were given" "$out"
mkdir -m 700 secrets
printf hushhush >secrets/password
open=(--secrets-dir secrets --option user=reader)
run "$millrace" ls "$url/closed/sub" "${open[@]}"
has "a password does not go by http://" "credentials are not sent by http://" "$out"
open+=(--option tls-verify=false)
run "$millrace" ls "$url/closed/sub" "${open[@]}"
is "unless it is asked for" "0:deeper/ nothing one" "$status:$(sort <<<"$out" | xargs)"
printf wrong >secrets/password
run "$millrace" ls "$url/closed" "${open[@]}"
has "a wrong one is told" "AccessDenied (401): check the user and password" "$out"
run "$millrace" cp "$url/moved/big" moved "${open[@]}"
is "a redirect to another server is followed" "0:$(sha256sum <tree/big)" "$status:$(sha256sum <moved)"
is "without the credentials" "" "$(cat seen)"
run "$millrace" cp "$url/circle" x
has "redirects that do not end are told" "the server leads on and on" "$out"

run "$millrace" ls "$url/unlisted"
has "a server that lists nothing says so" "AccessDenied (403)" "$out"
run "$millrace" check "$url/sub/one"
has "a file is no directory" "InvalidURL: it is one file, no directory: name the directory" "$out"
run env http_proxy="$url" "$millrace" check http://my-bucket.s3.eu-west-1.amazonaws.com/unlisted/
has "a bucket that is not public is told as one" "the bucket is not public; with keys it is mounted as s3://my-bucket/unlisted and secretRef" "$out"
run "$millrace" check "https://s3.console.aws.amazon.com/s3/buckets/my-bucket?region=eu-west-1"
has "a page of a console is no directory" "InvalidURL: this is a page of a console, for people; the bucket is s3://my-bucket" "$out"
run "$millrace" ls --recursive "$url/unlisted/" --option manifest=files.list
is "and is read by a list" "$(cut -f 1 tree/files.list | grep -v '^#' | grep . | sort -u)" "$(sort <<<"$out")"
run "$millrace" ls "$url/unlisted/sub/" --option manifest=../files.list
has "whose path is below the URL" "option manifest" "$out"
run "$millrace" ls "$url/unlisted/" --option manifest=bad.list
has "a list with a bad line is told" "line 1 is no path below the URL" "$out"

printf 'http://127.0.0.1:%s/unlisted/with%%20space/a+b%%2541%%26c%%27s%%20%%C3%%BC%%23x%%3F.txt\nhttp://127.0.0.1:1/other\n' "$nginx" >tree/urls.list
run "$millrace" ls "$url/unlisted/" --option manifest=urls.list
has "a list with the URL of another server is told" "line 2 is no path below the URL: http://127.0.0.1:1/other" "$out"
sed -i 2d tree/urls.list
run "$millrace" ls --recursive "$url/unlisted/" --option manifest=urls.list
is "one of URLs is read" "with space/a+b%41&c's ü#x?.txt" "$out"
rm tree/urls.list
echo "no file" >tree/sub/deeper/broken
run "$millrace" cp --recursive "$url/sub" copy-broken
is "a file that the server fails for is left out, and the rest is there" "1:nothing one two" \
    "$status:$(cd copy-broken && find . -type f -printf '%f\n' | sort | xargs)"
has "with a warning" "1 entry is left out" "$out"
rm tree/sub/deeper/broken
mkdir -p "tree/odd"
: >"tree/odd/two
lines"
: >tree/odd/good
run "$millrace" ls "$url/odd"
is "a name that no file can have is left out" good "$(grep -v 'warn: ' <<<"$out")"
has "with a warning, too" "is left out of the listing: no file can be called so" "$out"
rm -r tree/odd

url=http://127.0.0.1:$odd
for fault in truncated reset busy; do
    run "$millrace" cp "$url/$fault/big" back
    is "$fault: survived" "0:$(sha256sum <tree/big)" "$status:$(sha256sum <back)"
done
run "$millrace" ls "$url/text/"
has "what is no index page is told" "shows no index page" "$out"

echo "1..$count"
exit "$failed"
