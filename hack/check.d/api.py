#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/reference/api.md, from crds/*.yaml: every field, and every refusal in the words that the API server uses. Prints the page;
with --unexplained the fields that have no description."""
import glob
import re
import sys

import yaml

AS_IN_PODS = {"nodeAffinity", "tolerations", "resources"}  # Kubernetes' own shapes: their fields are not repeated
HEAD = """<!-- Made by `hack/docs`, of crds/. -->
# The API

Every field of our custom resources. `kubectl explain dataset.spec --recursive` shows the same. Where *default* is empty, the field is
optional, and the description says what its absence means; **bold** fields are required. *fixed*: cannot be changed later.
Reasons of conditions: [troubleshooting](../operations/troubleshooting.md). Labels and annotations: [annotations](annotations.md).
Options of stores: [options](options.md). What may change in which version: [compatibility](compatibility.md).
"""


def cell(text):
    return re.sub(r"\s+", " ", str(text)).strip().replace("|", "\\|")


def type_of(schema):
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"] if value != "") or "string"
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    if schema.get("type") == "object" and "additionalProperties" in schema:
        return f"map of {type_of(schema['additionalProperties'])}"
    return schema.get("type", "any")


def limits(schema):
    """What the schema says beyond the type, in words."""
    words = []
    if "minimum" in schema or "maximum" in schema:
        at_most = f"to {schema['maximum']}" if "maximum" in schema else "or more"
        words.append(f"{schema.get('minimum', 'up')} {at_most}")
    if "maxItems" in schema:
        words.append(f"at most {schema['maxItems']}")
    if "maxLength" in schema and schema.get("type") == "string" and schema["maxLength"] < 2048:
        words.append(f"at most {schema['maxLength']} characters")
    return ", ".join(words)


def default_of(schema):
    if "default" not in schema:
        return ""
    value = schema["default"]
    return "`" + (str(value).lower() if isinstance(value, bool) else yaml.safe_dump(value, default_flow_style=True).split("\n")[0]) + "`"


def rules(schema):
    return schema.get("x-kubernetes-validations", [])


def is_fixed(name, schema, parent):
    if any(re.fullmatch(r"\s*self\s*==\s*oldSelf\s*", rule["rule"]) for rule in rules(schema)):
        return True
    return any(re.search(rf"\bself\.{name}\s*==\s*oldSelf\.{name}\b", rule["rule"]) for rule in rules(parent))


def is_gone(schema):
    """A field that is in the schema only to be refused in words."""
    return schema.get("description", "").startswith("Gone")


def rows(path, schema, parent):
    """One line a field, those below it after it."""
    field = path.rsplit(".", 1)[-1]
    if is_gone(schema):
        return
    name = f"**{path}**" if field in parent.get("required", []) else path
    as_in_pods = field in AS_IN_PODS and schema.get("type") in ("array", "object")
    text = [schema.get("description", ""), "As in a pod" if as_in_pods else "", limits(schema).capitalize(),
            "*fixed*" if is_fixed(field, schema, parent) else ""]
    text = [word.rstrip(".") for word in text if word]
    if text or not schema.get("properties"):
        yield f"| {name} | {type_of(schema)} | {default_of(schema)} | {cell('. '.join(text))} |"
    items = schema.get("items", {}) if schema.get("type") == "array" else schema
    if isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"].get("properties"):
        items = schema["additionalProperties"]
    prefix = path + ("[]" if schema.get("type") == "array" else "")
    if items is not schema and schema.get("type") == "object":
        prefix = path + ".*"
    if as_in_pods or path == "conditions":
        return
    for below, its_schema in items.get("properties", {}).items():
        yield from rows(f"{prefix}.{below}", its_schema, items)


def messages(schema):
    """The words of every rule, in the order of the schema."""
    for rule in rules(schema):
        if "message" in rule:
            yield cell(rule["message"])
        elif "messageExpression" in rule:
            yield cell(" … ".join(text.strip() for text in re.findall(r"'([^']*)'", re.sub(r"\['[^]]*\]|matches\('[^']*'\)", "", rule["messageExpression"]))))
    for below in list(schema.get("properties", {}).values()) + [schema.get("items"), schema.get("additionalProperties")]:
        if isinstance(below, dict):
            yield from messages(below)


def kind(crd):
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    yield f"\n## {names['kind']}\n"
    short = ", ".join(f"`{name}`" for name in names.get("shortNames", []))
    yield f"`{crd['spec']['group']}/{version['name']}`, {crd['spec']['scope'].lower()}" + (f", short name {short}" if short else "") + ".\n"
    if schema.get("description"):
        yield f"{cell(schema['description'])}\n"
    for part in ("spec", "status"):
        if part not in schema["properties"]:
            continue
        yield f"| {part} | type | default | |\n|---|---|---|---|"
        for field, below in schema["properties"][part].get("properties", {}).items():
            yield from rows(field, below, schema["properties"][part])
        yield ""
    columns = version.get("additionalPrinterColumns", [])
    if columns:
        yield "| column of `kubectl get` | |\n|---|---|"
        for column in filter(lambda c: c.get("description"), columns):
            wide = "with `-o wide`: " if column.get("priority") else ""
            yield f"| {column['name'].upper()} | {wide}{cell(column['description'])} |"
        yield ""
    said = list(dict.fromkeys(messages(schema)))
    if said:
        yield "Refused by the API server, in these words:\n"
        yield "\n".join(f"- {text}" for text in said)


def unexplained(schema, path):
    """Fields of which kubectl explain would say nothing."""
    for below, its_schema in schema.get("properties", {}).items():
        if not its_schema.get("description"):
            yield f"{path}.{below}"
        yield from unexplained(its_schema, f"{path}.{below}")
        yield from unexplained(its_schema.get("items", {}), f"{path}.{below}[]")


def main():
    if sys.argv[1:] == ["--unexplained"]:
        for path in sorted(glob.glob("crds/millrace.dev_*.yaml")):
            with open(path, encoding="utf-8") as file:
                schema = yaml.safe_load(file)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            for part in ("spec", "status"):
                for field in unexplained(schema["properties"][part], part):
                    print(f"{path}: {field}")
        return
    print(HEAD, end="")
    for path in sorted(glob.glob("crds/*.yaml"), key=lambda name: ("tfjob" in name, "dataload" in name)):
        with open(path, encoding="utf-8") as file:
            for line in kind(yaml.safe_load(file)):
                print(line)


if __name__ == "__main__":
    sys.exit(main())
