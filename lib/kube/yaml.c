/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/kube/yaml.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static int refuse(const yaml_mark_t *at, const char *what, struct err *e)
{
    return err_set(e, ERR_INVALID, "yaml, line %zu: %s", at->line + 1, what);
}

static int next(yaml_parser_t *p, yaml_event_t *event, struct err *e)
{
    if (yaml_parser_parse(p, event))
        return 0;
    return refuse(&p->problem_mark, p->problem ? p->problem : "it cannot be read", e);
}

static bool any_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

static json_t *scalar(const yaml_event_t *event, struct err *e)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    if (event->data.scalar.anchor) {
        refuse(&event->start_mark, "anchors are not supported", e);
        return NULL;
    }
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && event->data.scalar.plain_implicit) {
        if (any_of(text, nulls))
            return json_null();
        if (any_of(text, trues))
            return json_true();
        if (any_of(text, falses))
            return json_false();
        char *end;
        errno = 0;
        long long n = strtoll(text, &end, 10);
        if (!*end && errno == 0 && (text[0] != '0' || !text[1]))
            return json_integer(n);
    }
    json_t *j = json_stringn(text, len);
    if (!j)
        refuse(&event->start_mark, "a string is not valid UTF-8", e);
    return j;
}

static json_t *node(yaml_parser_t *p, const yaml_event_t *event, int depth, struct err *e);

static json_t *sequence(yaml_parser_t *p, int depth, struct err *e)
{
    json_t *array = json_array();
    for (;;) {
        yaml_event_t event;
        if (next(p, &event, e))
            break;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        json_t *item = end ? NULL : node(p, &event, depth, e);
        yaml_event_delete(&event);
        if (end)
            return array;
        if (!item)
            break;
        json_array_append_new(array, item);
    }
    json_decref(array);
    return NULL;
}

/* One "key: value"; *end when the mapping ended instead. */
static int pair(yaml_parser_t *p, json_t *object, int depth, bool *end, struct err *e)
{
    yaml_event_t key, value;
    if (next(p, &key, e))
        return -1;
    *end = key.type == YAML_MAPPING_END_EVENT;
    int rc = *end ? 0 : -1;
    if (*end)
        goto out;
    if (key.type != YAML_SCALAR_EVENT) {
        refuse(&key.start_mark, "a key must be a plain word", e);
        goto out;
    }
    const char *name = (const char *)key.data.scalar.value;
    if (json_object_get(object, name)) {
        err_set(
            e, ERR_INVALID, "yaml, line %zu: \"%s\" is given twice", key.start_mark.line + 1, name);
        goto out;
    }
    if (next(p, &value, e))
        goto out;
    json_t *j = node(p, &value, depth, e);
    yaml_event_delete(&value);
    if (!j)
        goto out;
    rc = json_object_set_new(object, name, j);
    if (rc)
        refuse(&key.start_mark, "a key is not valid UTF-8", e);
out:
    yaml_event_delete(&key);
    return rc;
}

static json_t *mapping(yaml_parser_t *p, int depth, struct err *e)
{
    json_t *object = json_object();
    for (bool end = false;;) {
        if (pair(p, object, depth, &end, e)) {
            json_decref(object);
            return NULL;
        }
        if (end)
            return object;
    }
}

static json_t *node(yaml_parser_t *p, const yaml_event_t *event, int depth, struct err *e)
{
    if (depth >= YAML_DEPTH) {
        refuse(&event->start_mark, "too many levels", e);
        return NULL;
    }
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return scalar(event, e);
    case YAML_SEQUENCE_START_EVENT:
        if (!event->data.sequence_start.anchor)
            return sequence(p, depth + 1, e);
        break;
    case YAML_MAPPING_START_EVENT:
        if (!event->data.mapping_start.anchor)
            return mapping(p, depth + 1, e);
        break;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
    case YAML_ALIAS_EVENT:
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        break;
    }
    refuse(&event->start_mark, "anchors and aliases are not supported", e);
    return NULL;
}

/* Skips the events in front of the root, or behind it, up to the type that is asked for. */
static int expect(yaml_parser_t *p, yaml_event_type_t type, struct err *e)
{
    yaml_event_t event;
    if (next(p, &event, e))
        return -1;
    int rc = event.type == type ? 0 : refuse(&event.start_mark, "one document is expected", e);
    yaml_event_delete(&event);
    return rc;
}

static json_t *document(yaml_parser_t *p, struct err *e)
{
    if (expect(p, YAML_STREAM_START_EVENT, e) || expect(p, YAML_DOCUMENT_START_EVENT, e))
        return NULL;
    yaml_event_t event;
    if (next(p, &event, e))
        return NULL;
    json_t *root = node(p, &event, 0, e);
    yaml_event_delete(&event);
    if (root && (expect(p, YAML_DOCUMENT_END_EVENT, e) || expect(p, YAML_STREAM_END_EVENT, e))) {
        json_decref(root);
        return NULL;
    }
    return root;
}

json_t *yaml_parse(const char *text, size_t len, struct err *e)
{
    yaml_parser_t p;
    if (!yaml_parser_initialize(&p)) {
        err_set(e, ERR_EXHAUSTED, "no memory for a YAML parser");
        return NULL;
    }
    yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
    json_t *root = document(&p, e);
    yaml_parser_delete(&p);
    return root;
}
