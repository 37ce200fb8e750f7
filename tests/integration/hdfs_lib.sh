# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Sourced by the tests that need a real HDFS: Hadoop's own name nodes and a data node, on free ports. The caller's own
# directory is $WORK, the logs are $WORK/hadoop/*.log, and its trap calls hdfs_end.
#   hdfs_start [ha]    one name node, or a pair of them of which the first is active; returns when files can be written. Sets HDFS_HTTP
#                      and HDFS_RPC (arrays of host:port). Exit status 77 (SKIP) where there is no Hadoop.
#   hdfs_run NAME      starts name1, name2 or data; hdfs_kill NAME [SIGNAL] ends it; so it does the KDC, kdc, and hdfs_kdc starts that again
#   hdfs_tls           before hdfs_start: all serve https://, too; sets HDFS_HTTPS (host:port of the name node) and HDFS_CA (a file)
#   hdfs_kerberos      before hdfs_start: all of it in secure mode, with a KDC of its own; HDFS_KEYTAB has the superuser's key, and
#                      KRB5_CONFIG is exported. Exit status 77 where there is no KDC. Clients of ours ask by hdfs_does alone.
#   hdfs_httpfs        after one with "${HDFS_PROXY[@]}" in HDFS_MORE: starts HttpFS; sets HDFS_HTTPFS (host:port)
#   hdfs COMMAND…      Hadoop's own client: hdfs dfs -ls /, hdfs dfsadmin …, hdfs haadmin …
# HDFS_HOST: the address that all listen on; HDFS_ON: a command that runs another one where that address is; HDFS_BASE: the first of the
# ports; HDFS_MORE: properties NAME=VALUE of all of them. Whoever runs it is the superuser.

HDFS_JARS=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/hadoop/lib
HDFS_MORE=()
HDFS_HOST=127.0.0.1 HDFS_ON=()
HDFS_JAVA=() HDFS_CURL=() # more arguments
HDFS_PROXY=("hadoop.proxyuser.$(id -un).hosts=*" "hadoop.proxyuser.$(id -un).groups=*") # it speaks for others
HDFS_BASE=$((10000 + RANDOM % 20000))
declare -A HDFS_PIDS=()
unset HADOOP_USER_NAME HADOOP_CONF_DIR

hdfs_java() # CONFIGURATION HEAP_MB CLASS ARGUMENT…
{
    local conf=$1 heap=$2
    shift 2
    set -- "-Dhttpfs.home.dir=$conf" "-Dhttpfs.config.dir=$conf" "-Dhttpfs.log.dir=$conf" "-Dhttpfs.temp.dir=$conf" "$@"
    exec "${HDFS_ON[@]}" java "-Xmx${heap}m" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true \
        "${HDFS_JAVA[@]}" --add-opens=java.base/java.lang=ALL-UNNAMED -cp "$conf:$HDFS_JARS/*" "$@"
}

hdfs()
{
    local class
    case $1 in
    dfs) class=org.apache.hadoop.fs.FsShell ;;
    dfsadmin) class=org.apache.hadoop.hdfs.tools.DFSAdmin ;;
    haadmin) class=org.apache.hadoop.hdfs.tools.DFSHAAdmin ;;
    esac
    shift
    (hdfs_java "$WORK/hadoop/client" 128 "$class" "$@" 2>>"$WORK/hadoop/client.log")
}

hdfs_kill() # NAME [SIGNAL]
{
    local pid=${HDFS_PIDS[$1]:-}
    [ -n "$pid" ] || return 0
    kill "-${2:-KILL}" "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    unset "HDFS_PIDS[$1]"
}

hdfs_end()
{
    local name
    for name in "${!HDFS_PIDS[@]}"; do hdfs_kill "$name"; done
}

hdfs_until() # WHAT COMMAND…: five minutes
{
    local end=$((SECONDS + 300)) what=$1
    shift
    until "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $end ]; then
            echo "in vain: $what" >&2
            tail -n 20 "$WORK"/hadoop/*.log >&2
            exit 1
        fi
        sleep 0.2
    done
}

hdfs_properties() # FILE NAME=VALUE…
{
    local file=$1 pair
    shift
    {
        echo '<?xml version="1.0"?><configuration>'
        for pair in "$@"; do
            echo "<property><name>${pair%%=*}</name><value>${pair#*=}</value></property>"
        done
        echo '</configuration>'
    } >"$file"
}

hdfs_configuration() # NAME NAME=VALUE…: a directory, of all properties and those
{
    local dir=$WORK/hadoop/$1
    shift
    mkdir -p "$dir/webapps/hdfs" "$dir/webapps/datanode" # empty: their pages for people are not in the jars
    hdfs_properties "$dir/core-site.xml" "fs.defaultFS=$HDFS_DEFAULT" "${HDFS_MORE[@]}"
    hdfs_properties "$dir/hdfs-site.xml" "${HDFS_PROPERTIES[@]}" "${HDFS_MORE[@]}" "$@"
    [ -z "${HDFS_CA:-}" ] || hdfs_properties "$dir/ssl-server.xml" "ssl.server.keystore.location=$WORK/hadoop/keys" \
        ssl.server.keystore.type=PKCS12 ssl.server.keystore.password=changeit ssl.server.keystore.keypassword=changeit
    cat >"$dir/log4j.properties" <<'LOG'
log4j.rootLogger=INFO, err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d{HH:mm:ss} %p %c{1}: %m%n
LOG
}

# A data node that is known by its address, for a network namespace has no names; one replica; short pages of listings and small blocks.
hdfs_configure() # [ha]
{
    local base=$HDFS_BASE dir=$WORK/hadoop n
    HDFS_RPC=("$HDFS_HOST:$base") HDFS_HTTP=("$HDFS_HOST:$((base + 2))") HDFS_DEFAULT=hdfs://$HDFS_HOST:$base
    HDFS_PROPERTIES=("dfs.datanode.data.dir=file://$dir/blocks" dfs.replication=1 dfs.blocksize=4194304
        dfs.namenode.fs-limits.min-block-size=1048576 dfs.ls.limit=200 dfs.namenode.safemode.extension=0
        "dfs.datanode.address=$HDFS_HOST:$((base + 4))" "dfs.datanode.http.address=$HDFS_HOST:$((base + 5))"
        "dfs.datanode.ipc.address=$HDFS_HOST:$((base + 6))" "dfs.datanode.hostname=$HDFS_HOST" dfs.client.use.datanode.hostname=false
        dfs.namenode.datanode.registration.ip-hostname-check=false dfs.heartbeat.interval=1
        dfs.namenode.heartbeat.recheck-interval=2000 dfs.namenode.redundancy.interval.seconds=1s)
    if [ "${1:-}" = ha ]; then
        HDFS_RPC+=("$HDFS_HOST:$((base + 1))") HDFS_HTTP+=("$HDFS_HOST:$((base + 3))") HDFS_DEFAULT=hdfs://cluster
        HDFS_PROPERTIES+=(dfs.nameservices=cluster "dfs.ha.namenodes.cluster=name1,name2" "dfs.namenode.shared.edits.dir=file://$dir/edits"
            dfs.client.failover.proxy.provider.cluster=org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider
            'dfs.ha.fencing.methods=shell(/bin/true)' dfs.ha.tail-edits.period=1)
        for n in 1 2; do
            HDFS_PROPERTIES+=("dfs.namenode.rpc-address.cluster.name$n=${HDFS_RPC[n - 1]}"
                "dfs.namenode.http-address.cluster.name$n=${HDFS_HTTP[n - 1]}")
            hdfs_configuration "name$n" "dfs.namenode.name.dir=file://$dir/image$n" "dfs.ha.namenode.id=name$n"
        done
        hdfs_configuration name1 "dfs.namenode.name.dir=file://$dir/image1" dfs.ha.namenode.id=name1 # it knows both now
    else
        HDFS_PROPERTIES+=("dfs.namenode.http-address=${HDFS_HTTP[0]}")
        hdfs_configuration name1 "dfs.namenode.name.dir=file://$dir/image1"
    fi
    hdfs_configuration data
    hdfs_configuration client
}

hdfs_run() # NAME
{
    local class
    case $1 in
    data) class=org.apache.hadoop.hdfs.server.datanode.DataNode ;;
    httpfs) class=org.apache.hadoop.fs.http.server.HttpFSServerWebServer ;;
    *) class=org.apache.hadoop.hdfs.server.namenode.NameNode ;;
    esac
    (hdfs_java "$WORK/hadoop/$1" 192 "$class" >>"$WORK/hadoop/$1.log" 2>&1) &
    HDFS_PIDS[$1]=$!
}

hdfs_does() # HOST:PORT METHOD PATH?op=…: by curl, as the superuser; prints the answer
{
    "${HDFS_ON[@]}" curl -sf "${HDFS_CURL[@]}" -X "$2" "http://$1/webhdfs/v1$3&user.name=$(id -un)"
}

# Out of safe mode, and with a data node.
hdfs_serves() # HOST:PORT
{
    hdfs_does "$1" PUT "/tmp?op=MKDIRS&permission=1777" >/dev/null \
        && "${HDFS_ON[@]}" curl -sf "${HDFS_CURL[@]}" "http://$1/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState" | grep -q '"NumLiveDataNodes" : 1'
}

hdfs_start() # [ha]
{
    if [ ! -d "$HDFS_JARS" ] || [ ! -x "$(type -P java)" ]; then
        echo "SKIP: no Hadoop; hack/setup hadoop fetches it"
        exit 77
    fi
    mkdir -p "$WORK/hadoop"
    hdfs_configure "$@"
    (hdfs_java "$WORK/hadoop/name1" 128 org.apache.hadoop.hdfs.server.namenode.NameNode -format -nonInteractive) \
        >"$WORK/hadoop/format.log" 2>&1
    if [ "${1:-}" = ha ]; then
        cp -r "$WORK/hadoop/image1" "$WORK/hadoop/image2"
        hdfs_run name2
    fi
    hdfs_run name1
    hdfs_run data
    if [ "${1:-}" = ha ]; then
        hdfs_until "the pair of name nodes" hdfs haadmin -transitionToActive name1
        hdfs_until "the other name node" "${HDFS_ON[@]}" curl -sf "http://${HDFS_HTTP[1]}/jmx?qry=x"
    fi
    hdfs_until "HDFS" hdfs_serves "${HDFS_HTTP[0]}"
}

hdfs_tls()
{
    mkdir -p "$WORK/hadoop"
    HDFS_CA=$WORK/hadoop/ca.pem HDFS_HTTPS=$HDFS_HOST:$((HDFS_BASE + 7))
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=hdfs -addext "subjectAltName=IP:$HDFS_HOST" -keyout "$WORK/hadoop/key.pem" \
        -out "$HDFS_CA" 2>/dev/null
    openssl pkcs12 -export -in "$HDFS_CA" -inkey "$WORK/hadoop/key.pem" -out "$WORK/hadoop/keys" -passout pass:changeit
    HDFS_MORE+=(dfs.http.policy=HTTP_AND_HTTPS "dfs.namenode.https-address=$HDFS_HTTPS"
        "dfs.datanode.https.address=$HDFS_HOST:$((HDFS_BASE + 8))")
}

hdfs_kdc() # after hdfs_kerberos and `hdfs_kill kdc`
{
    "${HDFS_ON[@]}" krb5kdc -n -P "$WORK/kerberos/pid" >>"$WORK/kerberos/log" 2>&1 &
    HDFS_PIDS[kdc]=$!
}

hdfs_kerberos()
{
    local dir=$WORK/kerberos realm=MILLRACE.TEST at=127.0.0.1:$((HDFS_BASE + 10)) me
    me=$(id -un)
    PATH=$PATH:/usr/sbin
    if [ ! -x "$(type -P krb5kdc)" ] || [ ! -x "$(type -P kadmin.local)" ]; then
        echo "SKIP: no KDC; hack/setup hadoop fetches it"
        exit 77
    fi
    mkdir -p "$dir"
    export KRB5_CONFIG=$dir/krb5.conf KRB5_KDC_PROFILE=$dir/kdc.conf KRB5_CLIENT_KTNAME=$dir/client KRB5CCNAME=FILE:$dir/tickets
    HDFS_KEYTAB=$dir/client
    cat >"$KRB5_CONFIG" <<CONF
[libdefaults]
  default_realm = $realm
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  $realm = {
    kdc = $at
  }
CONF
    cat >"$KRB5_KDC_PROFILE" <<CONF
[kdcdefaults]
  kdc_listen = $at
  kdc_tcp_listen = $at
[realms]
  $realm = {
    database_name = $dir/database
    key_stash_file = $dir/stash
    supported_enctypes = aes256-cts-hmac-sha1-96:normal
  }
CONF
    {
        kdb5_util create -s -r "$realm" -P master
        kadmin.local addprinc -randkey "$me"
        kadmin.local addprinc -randkey "$me/$HDFS_HOST"
        kadmin.local addprinc -randkey "HTTP/$HDFS_HOST"
        kadmin.local ktadd -k "$dir/client" "$me"
        kadmin.local ktadd -k "$dir/server" "$me/$HDFS_HOST" "HTTP/$HDFS_HOST"
    } >"$dir/log" 2>&1
    hdfs_kdc
    HDFS_JAVA+=("-Djava.security.krb5.conf=$KRB5_CONFIG")
    HDFS_CURL+=(--negotiate -u :)
    HDFS_MORE+=(hadoop.security.authentication=kerberos hadoop.security.authorization=false dfs.block.access.token.enable=true
        ignore.secure.ports.for.testing=true hadoop.http.authentication.type=kerberos
        "dfs.namenode.kerberos.principal=$me/$HDFS_HOST@$realm" "dfs.namenode.keytab.file=$dir/server"
        "dfs.datanode.kerberos.principal=$me/$HDFS_HOST@$realm" "dfs.datanode.keytab.file=$dir/server"
        "dfs.web.authentication.kerberos.principal=HTTP/$HDFS_HOST@$realm" "dfs.web.authentication.kerberos.keytab=$dir/server"
        "hadoop.http.authentication.kerberos.principal=HTTP/$HDFS_HOST@$realm" "hadoop.http.authentication.kerberos.keytab=$dir/server")
}

hdfs_httpfs()
{
    HDFS_HTTPFS=$HDFS_HOST:$((HDFS_BASE + 9))
    hdfs_configuration httpfs
    hdfs_properties "$WORK/hadoop/httpfs/httpfs-site.xml" "httpfs.http.hostname=$HDFS_HOST" "httpfs.http.port=${HDFS_HTTPFS#*:}"
    head -c 32 /dev/urandom | base64 >"$WORK/hadoop/httpfs/httpfs-signature.secret"
    hdfs_run httpfs
    hdfs_until HttpFS hdfs_does "$HDFS_HTTPFS" GET '/?op=GETFILESTATUS'
}
