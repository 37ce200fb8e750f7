/* SPDX-License-Identifier: Apache-2.0 */
/* names — every name that two rooms or two programs share, spelled once. CRD fields live in
 * operator/api instead. */
#ifndef MILLRACE_LIB_BASE_NAMES_H
#define MILLRACE_LIB_BASE_NAMES_H

#define NAME_GROUP             "millrace.dev"
#define NAME_API_VERSION       "millrace.dev/v1alpha1"
#define NAME_TFJOB_API_VERSION "kubeflow.org/v1"
#define NAME_DRIVER            "csi.millrace.dev" /* CSI driver = attacher = plugin name */
#define NAME_FIELD_MANAGER     "millrace-operator"
#define NAME_GPU_PERCENT       "millrace.dev/gpu-percent" /* a resource: hundredths of a GPU */
#define NAME_LEASE             "millrace-operator"

/* labels and annotations of our objects */
/* value NAME_FIELD_MANAGER on every child */
#define LABEL_MANAGED_BY  "app.kubernetes.io/managed-by"
#define LABEL_COMPONENT   "millrace.dev/component" /* client | worker | loader */
#define LABEL_DATASET     "millrace.dev/dataset"   /* Dataset name */
#define LABEL_DATASET_UID "millrace.dev/dataset-uid"
#define LABEL_NODE_HASH   "millrace.dev/node"     /* client pods: hash of the node's name */
#define LABEL_DATALOAD    "millrace.dev/dataload" /* DataLoad name, on its loader pod */
#define ANNOTATION_HASH   "millrace.dev/hash"     /* hash of the desired json of a child */
/* of a client, and in its VolumeAttachment: "true": it asks for no cpu and memory, as its node had
 * none left */
#define ANNOTATION_SMALL "millrace.dev/small"
/* on a loader's pod: when its run was due, of a DataLoad with a schedule */
#define ANNOTATION_SCHEDULED "millrace.dev/scheduled"
#define ANNOTATION_WORKERS   "millrace.dev/workers" /* how many cache workers to ask, on our pods */
/* hash of what a pod that preloads is to load, and from where */
#define ANNOTATION_LOADS "millrace.dev/loads"
/* of a cache worker: the nodes with GPUs that it was offered, see operator/dataset/place.h */
#define ANNOTATION_OFFERED "millrace.dev/offered"
/* on a TFJob's pod that takes the place of another: restarts of its index before it */
#define ANNOTATION_RESTARTS "millrace.dev/restarts"
/* on the same: how often its index was ended from outside, in a row */
#define ANNOTATION_DISRUPTIONS "millrace.dev/disruptions"
/* Labels of pods, labels or annotations of TFJobs: what they wait for, and where they run. */
#define LABEL_DATA      "millrace.dev/data"      /* Ready | Preloaded */
#define LABEL_PLACEMENT "millrace.dev/placement" /* Prefer | Require */
#define GATE_DATA       "millrace.dev/data"      /* spec.schedulingGates of such pods */
/* on such a pod while it waits: for which Dataset, why, and how far that is; then "no more" */
#define ANNOTATION_WAITING "millrace.dev/waiting"
#define LABEL_HOSTNAME     "kubernetes.io/hostname" /* of nodes */
/* annotations that users set on a TFJob; each is explained in the README */
/* "true": not in anybody's cluster spec */
#define ANNOTATION_EXCLUDE_EVALUATOR "millrace.dev/exclude-evaluator"
/* "true": a job of one replica gets TF_CONFIG too */
#define ANNOTATION_ALWAYS_TF_CONFIG "millrace.dev/always-tf-config"
/* "job": one restarts, all restart; "pod" */
#define ANNOTATION_RESTART_SCOPE "millrace.dev/restart-scope"
/* pods of a dead node are given up so long after their grace */
#define ANNOTATION_DEAD_NODE "millrace.dev/dead-node-timeout-seconds"
/* its name of before LABEL_DATA; refused */
#define ANNOTATION_WAIT_PRELOAD "millrace.dev/wait-for-preload"
/* "<claim>/<directory>": a TensorBoard on it */
#define ANNOTATION_TENSORBOARD "millrace.dev/tensorboard"
/* otherwise the job's own */
#define ANNOTATION_TENSORBOARD_IMAGE "millrace.dev/tensorboard-image"
#define FINALIZER_DATASET            "millrace.dev/dataset"
/* of new nodes, whatever its effect, until the driver is registered there */
#define TAINT_NOT_READY  "csi.millrace.dev/agent-not-ready"
#define COMPONENT_CLIENT "client"
#define COMPONENT_WORKER "worker"
#define COMPONENT_LOADER "loader"
#define COMPONENT_CSI    "csi" /* the node plugin */
/* Deployment, Service and pod of a TFJob's TensorBoard */
#define COMPONENT_TENSORBOARD "tensorboard"
#define LABEL_TFJOB           "millrace.dev/tfjob" /* TFJob name, on pods of its TensorBoard */

/* object names: <dataset> is at most DATASET_NAME_MAX bytes so that every derived name is a valid
 * label */
#define DATASET_NAME_MAX 46
/* Dataset UID; the PVC is called like the Dataset */
#define NAME_PV_FMT         "millrace-%s"
#define NAME_KEY_FMT        "millrace-key-%s-%s" /* Secret; uid of the Dataset, name of the key */
#define NAME_MASTER_KEY     "millrace-key"       /* Secret, in the operator's namespace */
#define NAME_WORKER_POD_FMT "%s-cache-%d"        /* Dataset name, index; also its hostname */
/* headless; worker i is <pod>.<service>.<namespace>.svc */
#define NAME_WORKER_SERVICE_FMT "%s-cache"
#define NAME_CLIENT_POD_FMT     "%s-client-%08x" /* Dataset name, low 32 bits of hash64(node name) */
#define NAME_PRELOADER_POD_FMT  "%s-preload"     /* Dataset name */
#define NAME_LOADER_POD_FMT     "%s-loader"      /* DataLoad name */

/* volume_context keys. PV of a dataset: VOL_DATASET_*; inline ephemeral volumes of client and
 * worker pods: VOL_KIND + VOL_DATASET_UID. The namespace of an inline volume is always kubelet's
 * VOL_POD_NAMESPACE, never the user's word. */
#define VOL_DATASET_UID       "millrace.dev/dataset-uid"
#define VOL_DATASET_NAME      "millrace.dev/dataset"
#define VOL_DATASET_NAMESPACE "millrace.dev/namespace"
/* "true": the mount is read-only whatever the pod asks for */
#define VOL_READ_ONLY     "millrace.dev/read-only"
#define VOL_KIND          "millrace.dev/kind" /* VOL_KIND_CLIENT | VOL_KIND_WORKER */
#define VOL_KIND_CLIENT   "client"            /* volume holds VOLUME_SOCKET and VOLUME_CACHE */
#define VOL_KIND_WORKER   "worker"            /* volume holds VOLUME_CACHE */
#define VOL_POD_NAMESPACE "csi.storage.k8s.io/pod.namespace"
#define VOL_POD_NAME      "csi.storage.k8s.io/pod.name"
#define VOL_POD_UID       "csi.storage.k8s.io/pod.uid"
#define VOL_EPHEMERAL     "csi.storage.k8s.io/ephemeral"
/* inside an inline volume */
#define VOLUME_SOCKET "fuse.sock" /* lib/handoff/wire.h */
/* directory of the client's or the worker's cache tier on disk */
#define VOLUME_CACHE "cache"

/* extended attributes of a mount */
#define XATTR_ERROR  "user.millrace.error"  /* of a file: why it failed last */
#define XATTR_STATUS "user.millrace.status" /* of the root, not listed: JSON */
#define XATTR_WHY    "user.millrace.why" /* of the root, not listed: why reads are slow, in words */

/* of a file, not listed: JSON of lib/conf/report.h */
#define XATTR_LOCATION "user.millrace.location"

/* where things are inside client and worker pods */
#define POD_RUN_DIR "/run/millrace" /* the inline volume */
/* what the paths of the configuration's secrets are relative to */
#define POD_SECRETS_DIR  "/etc/millrace/secrets"
#define POD_KEY_DIR      "/etc/millrace/cache-key"
#define POD_IDENTITY_DIR "/var/run/secrets/millrace.dev/identity" /* token of a service account */
#define POD_INFO_DIR     "/etc/millrace/pod"
/* what ANNOTATION_WORKERS of the pod says, when it changes, too */
#define POD_INFO_WORKERS "workers"
#define ENV_CONFIG       "MILLRACE_CONFIG" /* JSON of fuse/conf.h: no secrets in it */
/* "true": what crashes leaves a core dump; by default it does not, as credentials would be in it */
#define ENV_CORE_DUMPS "MILLRACE_CORE_DUMPS"
/* PEM text: trusted for stores whose mount names no certificates */
#define ENV_CA_BUNDLE "MILLRACE_CA_BUNDLE"
/* where a service account's token is, for stores that give roles to it */
#define ENV_IDENTITY_TOKEN "MILLRACE_IDENTITY_TOKEN_FILE"
/* client, worker: /healthz /readyz /status and the worker's data */
#define PORT_HTTP     9400
#define PORT_METRICS  9402  /* all programs: /metrics and nothing else */
#define PORT_OPERATOR 8080  /* operator: /healthz /readyz */
#define POD_UID       65532 /* user and group of our containers */

/* arguments of millrace-worker --preload: a path, or this and a path that is to be pinned */
#define PRELOAD_PIN "pin="
/* exit status of a loader for what trying again does not mend */
#define LOADER_EXIT_FINAL 3

/* containers and TFJob */
#define CONTAINER_MAIN  "millrace"
#define TFJOB_CONTAINER "tensorflow"

#endif
