# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# plants.sh — for each rule of hack/check a function that breaks it in the current directory, a copy of the checkout, and prints
# what the rule must say of it. Sourced by self_test.sh.

SPDX='/* SPDX-License-Identifier: Apache-2.0 */'

source_file() # PATH: a source from standard input, with a licence and an opening comment
{
    { printf '%s\n/* planted */\n' "$SPDX" && cat; } >"$1"
}

plant_owners_of_headers() { source_file fuse/cache/planted.c <<<'#include <curl/curl.h>' && echo fuse/cache/planted.c; }
plant_rooms() { source_file fuse/store/planted.c <<<'#include "fuse/file/file.h"' && echo 'fuse/store/planted.c includes fuse/file/file.h'; }
plant_private() { source_file fuse/cache/planted.c <<<'#include "fuse/cache/catalogue_priv.h"' && echo 'fuse/cache/planted.c includes fuse/cache/catalogue_priv.h'; }

plant_circles()
{
    source_file lib/base/planted_a.c <<<'void planted_a(void) { planted_b(); }'
    source_file lib/base/planted_b.c <<<'void planted_b(void) { planted_a(); }'
    echo 'lib/base/planted_a.c -- in a circle of 2: calls planted_b.c:planted_b'
}

plant_externals()
{
    source_file lib/base/planted_a.c <<<'int planted;'
    source_file fuse/store/planted_b.c <<<'void planted(void) {}'
    echo 'planted -- fuse/store/planted_b.c lib/base/planted_a.c'
}

plant_types()
{
    source_file lib/base/planted_a.h <<<'struct planted { int x; };'
    source_file fuse/store/planted_b.c <<<'enum planted { PLANTED };'
    echo 'planted -- fuse/store/planted_b.c lib/base/planted_a.h'
}

plant_statics()
{
    source_file csi/planted_a.c <<<'static void planted(void) {}'
    source_file fuse/store/planted_b.c <<<'static int planted(void) { return 0; }'
    echo 'planted -- csi/planted_a.c fuse/store/planted_b.c'
}

# What a name with two underscores plants is another way round the same rule.
plant_rooms__brackets() { source_file fuse/store/planted.c <<<'#include <fuse/file/file.h>' && echo 'fuse/store/planted.c includes fuse/file/file.h'; }
plant_rooms__macro() { source_file fuse/store/planted.c <<<'#include FILE_H' && echo 'fuse/store/planted.c includes FILE_H'; }
plant_rooms__call() { source_file fuse/store/planted.c <<<'int planted(void) { return file_open(); }' && echo 'fuse/store/planted.c calls file_open'; }
plant_private__brackets() { source_file fuse/index/planted.c <<<'#include <fuse/store/impl.h>' && echo 'fuse/index/planted.c includes fuse/store/impl.h'; }

plant_circles__inline()
{
    source_file lib/base/planted.h <<<'static inline void planted(void) { planted_b(); }'
    source_file lib/base/planted_a.c <<<'void planted_a(void) { planted(); }'
    source_file lib/base/planted_b.c <<<'void planted_b(void) { planted_a(); }'
    echo 'lib/base/planted_a.c -- in a circle of 2: calls planted_b.c:planted_b'
}

plant_circles__macro()
{
    source_file lib/base/planted.h <<<'#define PLANTED() planted_b()'
    source_file lib/base/planted_a.c <<<'void planted_a(void) { PLANTED(); }'
    source_file lib/base/planted_b.c <<<'void planted_b(void) { planted_a(); }'
    echo 'lib/base/planted_a.c -- in a circle of 2: calls planted_b.c:planted_b'
}

plant_shell_outs__execv() { source_file csi/planted.c <<<'int planted(char **v) { return execv("/usr/bin/sh", v); }' && echo csi/planted.c:3; }
plant_shell_outs__execvp() { source_file csi/planted.c <<<'int planted(char **v) { return execvp("bash", v); }' && echo csi/planted.c:3; }
plant_unsafe_functions__scanf() { source_file lib/base/planted.c <<<'void planted(char *s) { scanf("%s", s); }' && echo lib/base/planted.c:3; }
plant_typedefs_of_structs__const() { source_file lib/base/planted.h <<<'typedef const struct planted planted_t;' && echo lib/base/planted.h:3; }
plant_empty_assertions__same() { source_file tests/unit/planted.c <<<'void planted(void) { assert_int_equal(a->b, a->b); }' && echo tests/unit/planted.c:3; }
plant_shell_outs() { source_file csi/planted.c <<<'int planted(void) { return system("ls"); }' && echo csi/planted.c:3; }
plant_impure_plans() { echo 'static long planted(void) { return time(NULL); }' >>operator/tfjob/plan.c && echo 'return time(NULL)'; }
plant_unsafe_functions() { source_file lib/base/planted.c <<<'void planted(char *s) { strcat(s, "x"); }' && echo lib/base/planted.c:3; }
plant_typedefs_of_structs() { source_file lib/base/planted.h <<<'typedef struct planted planted_t;' && echo lib/base/planted.h:3; }
plant_long_files() { seq 600 | source_file tests/unit/planted.c && echo 'tests/unit/planted.c -- 602 lines'; }
plant_formatted() { source_file lib/base/planted.c <<<'int  planted ;' && echo lib/base/planted.c:3; }
plant_tabs_and_trailing_blanks() { source_file lib/base/planted.c <<<'int planted; ' && echo lib/base/planted.c:3; }
plant_licences() { echo '/* planted */' >fuse/store/planted.c && echo fuse/store/planted.c; }
plant_openings() { printf '%s\n#include <stdio.h>\n' "$SPDX" >fuse/store/planted.c && echo fuse/store/planted.c; }
plant_words() { source_file lib/base/planted.c <<<'int planted_ofile;' && echo 'lib/base/planted.c: ofile'; }
plant_names_spelled_twice() { source_file lib/base/planted.c <<<'const char *planted = "millrace.dev/planted";' && echo lib/base/planted.c:3; }
plant_rooms__known() { echo 'rooms: planted' >>hack/check.d/known.txt && echo 'planted -- is mended'; }
plant_unfinished_words() { source_file lib/base/planted.c <<<'/* TO''DO */' && echo lib/base/planted.c:3; }
plant_empty_assertions() { source_file tests/unit/planted.c <<<'void planted(void) { assert_true(1); }' && echo tests/unit/planted.c:3; }
plant_blind_negations() { echo '! ps | grep -q planted' >>tests/e2e/lib.sh && echo 'grep -q planted'; }
plant_crd_copies() { echo '# planted' >>"$(find crds -name '*.yaml' | head -n 1)" && echo 'differ'; }
plant_unexplained_fields() { sed -i 's/^\( *summary: {type: string\),.*/\1}/' crds/millrace.dev_datasets.yaml && echo status.workers.summary; }
plant_helm_page() { printf "\nplanted: 1\n" >>charts/millrace/values.yaml && echo planted; }
plant_big_crds() { seq -f '# planted %g' 30000 >crds/planted.yaml && echo crds/planted.yaml; }
plant_helm_lint() { echo '{{ planted' >charts/millrace/templates/planted.yaml && echo planted.yaml; }
plant_shell_lint() { printf '#!/bin/bash\n# planted\ncd $1\n' >hack/planted.sh && chmod +x hack/planted.sh && echo hack/planted.sh; }
plant_python_syntax() { echo 'def planted(:' >tests/planted.py && echo planted.py; }
plant_executables() { printf '#!/bin/bash\n' >hack/planted.sh && echo hack/planted.sh; }
plant_versions() { sed -i 's/^appVersion: .*/appVersion: 9.9.9/' charts/millrace/Chart.yaml && echo 'appVersion: 9.9.9 -- CMakeLists.txt says'; }
plant_versions__page() { echo 'docker pull registry.example/ml/millrace:9.9.9' >>docs/README.md && echo 'docs/README.md'; }

plant_readme_commands() { sed -i 's|hack/demo|planted|g' README.md && echo 'hack/demo'; }
plant_generated_pages() { sed -i 's/maximum: 1000/maximum: 999/' crds/millrace.dev_datasets.yaml && echo docs/reference/api.md; }
plant_doc_links() { echo '[x](planted.md)' >>docs/concepts.md && echo 'docs/concepts.md: planted.md'; }
plant_documented_names() { echo '#define LABEL_PLANTED "millrace.dev/planted"' >>lib/base/names.h && echo millrace.dev/planted; }
plant_documented_reasons() { echo 'static const char *const planted = "PlantedReason";' >>operator/dataset/plan.c && echo PlantedReason; }
plant_documented_commands() { printf '# Planted\n\n```sh\nls\n```\n' >docs/planted.md && echo 'docs/planted.md:3: who runs'; }
plant_documented_commands__example() { printf '# Planted\n\n```sh\nls\n```\n' >examples/mnist/README.md && echo 'examples/mnist/README.md:3: who runs'; }
plant_documented_commands__text() { printf '# Planted\n\nDo `millrace plant POD`.\n' >docs/planted.md && echo 'docs/planted.md:3: millrace has no verb plant'; }
plant_documented_commands__flag() { printf '# Planted\n\nDo `kubectl millrace why POD --planted`.\n' >docs/planted.md && echo 'millrace why has no flag --planted'; }
plant_documented_commands__program() { printf '# Planted\n\nDo `hack/plant`.\n' >README.md && echo 'README.md:3: there is no hack/plant'; }
plant_documented_commands__test() { printf '<!-- run by: tests/e2e/planted.sh -->\n```sh\nls\n```\n' >docs/planted.md && echo 'there is no tests/e2e/planted.sh'; }

plant_documented_commands__named()
{
    printf '# planted: docs/planted.md\nls docs/planted.md\n' >tests/e2e/09_planted.sh
    printf '<!-- run by: tests/e2e/09_planted.sh -->\n```sh\nls docs/planted.md\nhelm uninstall planted -n planted\n```\n' >docs/planted.md
    echo "docs/planted.md:2: tests/e2e/09_planted.sh does not run its block 1, and has no 'helm uninstall planted'"
}

plant_documented_commands__comment()
{
    printf '# page_block docs/planted.md 1\n' >tests/e2e/09_planted.sh
    printf '<!-- run by: tests/e2e/09_planted.sh -->\n```sh\nls -l\n```\n' >docs/planted.md
    echo 'docs/planted.md:2: tests/e2e/09_planted.sh does not name this page'
}

plant_documented_commands__block()
{
    printf 'page_block docs/planted.md 1\n' >tests/e2e/09_planted.sh
    printf '<!-- run by: tests/e2e/09_planted.sh -->\n# Planted\n```sh\nls\n```\n```sh\ndate -u\n```\n' >docs/planted.md
    echo "docs/planted.md:6: tests/e2e/09_planted.sh does not run its block 2, and has no 'date -u'"
}

plant_documented_commands__said()
{
    printf 'step "$(page_block docs/planted.md 1)"\necho page_block docs/planted.md 1\nls docs/planted.md\n' >tests/e2e/09_planted.sh
    printf '<!-- run by: tests/e2e/09_planted.sh -->\n```sh\nhelm -n planted status\n```\n' >docs/planted.md
    echo "docs/planted.md:2: tests/e2e/09_planted.sh does not run its block 1, and has no 'helm -n planted status'"
}

plant_documented_commands__library()
{
    printf 'page_block docs/planted.md 1\n' >tests/e2e/planted.sh
    printf '<!-- run by: tests/e2e/planted.sh -->\n```sh\nls -l\n```\n' >docs/planted.md
    echo "docs/planted.md:2: tests/e2e/planted.sh is no test that hack/test runs"
}

plant_documented_commands__language()
{
    printf '# Planted\n\n```text\nkubectl get pods\n```\n' >docs/planted.md
    echo "docs/planted.md:3: a block of commands is called sh or console: kubectl get pods"
}

plant_documented_commands__no_reason()
{
    printf '# Planted\n\n<!-- not run here: - -->\n```sh\nls\n```\n' >docs/planted.md
    echo "docs/planted.md:4: who runs this block?"
}

plant_commits()
{
    seq 30 >planted
    git add planted
    git commit -qm 'tree: plant'
    echo 'tree: plant -- 30 lines change'
}
