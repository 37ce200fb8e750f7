# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The trainer image with Apache Spark, TensorFlowOnSpark and TensorFlow Datasets of PyPI, Debian's Java, and the Hadoop format of TFRecords
# from Maven's repository. Sourced by hack/image; spark_site by hack/setup, too.
# inputs: hack/lib.sh hack/image.d/trainer.sh hack/image.d/trainer.txt hack/image.d/spark.txt

# shellcheck source=hack/image.d/trainer.sh
. "$ROOT/hack/image.d/trainer.sh"

SPARK_RECORDS=org.tensorflow:tensorflow-hadoop:1.15.0

# Spark and the others installed into a directory that stands before the trainer's. Some are sources only: built for this machine's Python.
spark_site() # DIRECTORY
{
    rm -rf "$1"
    /usr/bin/python3 -m pip install -q --disable-pip-version-check --root-user-action ignore --no-deps --no-compile --target "$1" \
        -r "$ROOT/hack/image.d/spark.txt"
    mvn -q -B dependency:copy -Dartifact="$SPARK_RECORDS" -DoutputDirectory="$1/pyspark/jars"
    rm -rf "${1:?}"/bin "${1:?}"/pyspark/{examples,data,licenses,tests} \
        "${1:?}"/pyspark/jars/{kubernetes,mesos,hive,rocksdbjni,derby,spark-hive,spark-mesos,spark-kubernetes,spark-yarn,hadoop-yarn}-*
    find "$1/tensorflow_datasets" -type d -name checksums -prune -exec rm -rf {} +
    find "$1" -type d \( -name tests -o -name __pycache__ \) -prune -exec rm -rf {} +
}

image_spark() # OUT.tar
{
    local root site program
    "$ROOT/hack/setup" spark
    root=$(mktemp -d)
    trainer_root "$root" openjdk-17-jre-headless bash
    site=$root/usr/local/lib/python3.11/dist-packages
    rm -rf "$site"/numpy* # TensorFlowOnSpark's examples want an older one
    cp -a --reflink=auto "$CACHE/spark/site/." "$site"
    while read -r program; do # what Spark's scripts call, and Hadoop for each file that it writes: chmod
        [ -e "$root/bin/$program" ] || [ -e "$root/usr/bin/$program" ] || ln -s /bin/busybox "$root/usr/bin/$program"
    done < <(chroot "$root" /bin/busybox --list)
    ln -s ../lib/jvm/java-17-openjdk-amd64/bin/java "$root/usr/bin/java"
    for program in spark-class spark-submit; do # no links: they look for the others beside them
        printf '#!/bin/sh\nexec /usr/local/lib/python3.11/dist-packages/pyspark/bin/%s "$@"\n' "$program" >"$root/usr/local/bin/$program"
        chmod 755 "$root/usr/local/bin/$program"
    done
    trainer_compile "$root"
    image_pack localhost/millrace-spark:1 "$root" "$1"
    rm -rf "$root"
}
