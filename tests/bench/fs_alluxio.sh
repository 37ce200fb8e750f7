# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2153 # what start_s3() sets
# Alluxio beside the others in hack/bench fs: a master, a worker that keeps on disk what was read, and a FUSE process, each in a JVM.
# FUSE inside the worker would spare one, but Alluxio 2.9.4 then leaves its blocks uncommitted: nothing stays in the cache.

ALLUXIO=$CACHE/alluxio/2.9.4 # its jars

find_alluxio()
{
    apt_install openjdk-17-jre-headless || { log "no Alluxio: Debian's Java 17 cannot be installed"; return 1; }
    [ -d "$ALLUXIO" ] || with_lock alluxio alluxio_download || { log "no Alluxio: its jars cannot be had by maven"; return 1; }
    JAVA=$(echo /usr/lib/jvm/java-17-openjdk-*/bin/java)
}

alluxio_download()
{
    [ ! -d "$ALLUXIO" ] || return 0 # the run that was waited for has done it
    apt_install maven && run_step "Alluxio (140 MB)" alluxio_jars
}

# What was fetched before an interruption stays in maven's repository, which goes when all is there.
alluxio_jars()
{
    local repository=$CACHE/alluxio/maven new=$CACHE/alluxio/new
    rm -rf "$new"
    mvn --batch-mode --no-transfer-progress --file "$BENCH_DIR/alluxio.pom.xml" "-Dmaven.repo.local=$repository" \
        dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$new" || return 1
    rm -f "$new"/log4j-slf4j-impl-* # there is another binding of slf4j, and that one is configured
    mv "$new" "$ALLUXIO" && rm -rf "$repository"
}

# What a user sets who wants speed and writes nothing: no rights to check, no access times, metadata that stays in the client and the
# kernel. The keys of the store come from the environment.
alluxio_properties() # DATASET CACHE PORT
{
    cat <<END
alluxio.master.hostname=127.0.0.1
alluxio.master.bind.host=127.0.0.1
alluxio.master.rpc.port=$3
alluxio.master.web.bind.host=127.0.0.1
alluxio.master.web.port=$(($3 + 1))
alluxio.master.journal.type=UFS
alluxio.master.journal.folder=$2/journal
alluxio.master.metastore=HEAP
alluxio.master.update.check.enabled=false
alluxio.master.mount.table.root.ufs=s3://data/$(data_of alluxio "$1")
alluxio.master.mount.table.root.readonly=true
alluxio.underfs.s3.endpoint=$ENDPOINT
alluxio.underfs.s3.endpoint.region=us-east-1
alluxio.underfs.s3.disable.dns.buckets=true
alluxio.underfs.s3.inherit.acl=false
alluxio.security.authentication.type=NOSASL
alluxio.security.authorization.permission.enabled=false
alluxio.worker.hostname=127.0.0.1
alluxio.worker.bind.host=127.0.0.1
alluxio.worker.rpc.port=$(($3 + 2))
alluxio.worker.web.bind.host=127.0.0.1
alluxio.worker.web.port=$(($3 + 3))
alluxio.worker.tieredstore.levels=1
alluxio.worker.tieredstore.level0.alias=SSD
alluxio.worker.tieredstore.level0.dirs.path=$2/blocks
alluxio.worker.tieredstore.level0.dirs.mediumtype=SSD
alluxio.worker.tieredstore.level0.dirs.quota=64GB
alluxio.user.hostname=127.0.0.1
alluxio.user.metadata.cache.enabled=true
alluxio.user.metadata.cache.max.size=1000000
alluxio.user.metadata.cache.expiration.time=1h
alluxio.user.metrics.collection.enabled=false
alluxio.user.update.file.accesstime.disabled=true
alluxio.fuse.cached.paths.max=100000
alluxio.fuse.jnifuse.libfuse.version=3
alluxio.fuse.mount.options=ro,allow_other,kernel_cache,attr_timeout=7200,entry_timeout=7200,max_idle_threads=64
alluxio.tmp.dirs=$ALLUXIO_HOME/tmp
END
}

alluxio_logging()
{
    cat <<'END'
log4j.rootLogger=WARN,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %-5p %c{1} - %m%n
END
}

# Alluxio 2.9 is made for Java 8 and 11. What a JVM would leave in /tmp goes where it is removed, or is not made.
alluxio_java() # HEAP CLASS ARGUMENTS…
{
    local package opens=()
    for package in java.lang java.lang.reflect java.nio java.util java.util.concurrent java.net java.io sun.nio.ch; do
        opens+=(--add-opens "java.base/$package=ALL-UNNAMED")
    done
    exec "$JAVA" "${opens[@]}" "-Xmx$1" -XX:MaxDirectMemorySize=2g -XX:+UseParallelGC -XX:-UsePerfData \
        "-Djava.io.tmpdir=$ALLUXIO_HOME/tmp" "-Dalluxio.home=$ALLUXIO_HOME" "-Dalluxio.conf.dir=$ALLUXIO_HOME" \
        "-Dalluxio.logs.dir=$ALLUXIO_HOME" "-Dlog4j.configuration=file:$ALLUXIO_HOME/log4j.properties" -cp "$ALLUXIO/*" "${@:2}"
}

free_ports() # COUNT: the first of so many in a row that nobody listens on
{
    local first port
    while true; do
        first=$((20000 + RANDOM % 10000))
        for ((port = first; port < first + $1; port++)); do
            ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || continue 2
        done
        echo "$first"
        return 0
    done
}

# One process with all the JVMs below it. It ends when it is told to or one of them ends, and then all do at once: what they have on
# disk is complete, and by themselves they take 10 s to stop.
start_alluxio() # DATASET MOUNTPOINT CACHE PROFILE
{
    local port master worker
    ALLUXIO_HOME=$WORK/alluxio-$1
    port=$(free_ports 4)
    mkdir -p "$ALLUXIO_HOME/tmp" "$3/journal" "$3/blocks"
    alluxio_properties "$1" "$3" "$port" >"$ALLUXIO_HOME/alluxio-site.properties"
    alluxio_logging >"$ALLUXIO_HOME/log4j.properties"
    # shellcheck disable=SC2046 # words
    trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT
    trap 'exit 143' TERM
    [ -e "$3/formatted" ] || { (alluxio_java 256m alluxio.cli.Format master) && : >"$3/formatted"; } || exit 1
    alluxio_java 1g alluxio.master.AlluxioMaster &
    master=$!
    alluxio_java 2g alluxio.worker.AlluxioWorker &
    worker=$!
    until (: <"/dev/tcp/127.0.0.1/$((port + 3))") 2>/dev/null; do # mounted before, it would fail the first reads
        kill -0 "$worker" || exit 1
        nap 0.1
    done
    alluxio_java 2g alluxio.fuse.AlluxioFuse -m "$2" -a / &
    wait -n "$master" "$worker" "$!"
    exit 0
}
