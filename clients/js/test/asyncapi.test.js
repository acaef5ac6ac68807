/** asyncapi.yaml: valid by AsyncAPI's own schema, and true: what the server's tests keep as the wire's shape fits it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import asyncapi from "@asyncapi/specs";
import { Ajv } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { parse } from "yaml";
import { Server, JOB, event } from "./server.js";

const root = new URL("../../../", import.meta.url);
const read = (path) => readFileSync(new URL(path, root), "utf8");
const description = parse(read("asyncapi.yaml"));
const openapi = JSON.parse(read("openapi.json"));

/** Says what a schema has against a value; nothing when it fits. */
function faults(ajv, schema, value) {
  return ajv.validate(schema, value) ? [] : ajv.errors.map(({ instancePath, message }) => `${instancePath} ${message}`);
}

const messages = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(messages);
messages.addSchema(description, "asyncapi");
const schemaOf = (name) => ({ $ref: `asyncapi#/components/messages/${name}/payload` });

test("it is valid AsyncAPI", () => {
  const ajv = new Ajv({ strict: false, allErrors: false, validateFormats: false });
  assert.deepEqual(faults(ajv, asyncapi.schemasWithoutId["3.0.0"], description), []);
  assert.notDeepEqual(faults(ajv, asyncapi.schemasWithoutId["3.0.0"], { ...description, info: {} }), []);
});

test("every reference leads somewhere, and every message has an example that fits", () => {
  const lookup = (ref) => ref.slice(2).split("/").reduce((value, part) => value?.[part], description);
  JSON.stringify(description, (key, value) => {
    if (key === "$ref") assert.ok(lookup(value), value);
    return value;
  });
  for (const [name, { examples }] of Object.entries(description.components.messages)) {
    assert.ok(examples.length > 0, name);
    for (const { payload } of examples) assert.deepEqual(faults(messages, schemaOf(name), payload), [], name);
  }
});

test("the server's messages are these", () => {
  const snapshot = read("shared/wire/tests/snapshots/shapes__socket.snap").split("\n---\n")[1];
  const sent = JSON.parse(snapshot);
  for (const message of sent) assert.deepEqual(faults(messages, schemaOf(message.type), message), [], message.type);
  const { ClientMessage, Event } = openapi.components.schemas;
  const described = (operation) =>
    description.operations[operation].messages.map(({ $ref }) => $ref.split("/").at(-1)).sort();
  const kinds = ClientMessage.oneOf.map((one) => one.properties.action.enum[0]).sort();
  assert.deepEqual(described("sendToClients"), sent.map((message) => message.type).sort(), "what the server sends");
  assert.deepEqual(described("receiveFromClients"), kinds, "what the server takes");
  const { event: schema } = description.components.schemas;
  assert.deepEqual([...schema.properties.type.enum].sort(), [...Event.properties.type.enum].sort(), "types of events");
  assert.deepEqual([...schema.required].sort(), [...Event.required].sort(), "fields of an event");
});

test("the kept events fit", () => {
  const kept = JSON.parse(read("shared/wire/tests/snapshots/shapes__events.snap").split("\n---\n")[1]);
  assert.ok(kept.length > 10);
  for (const one of kept) assert.deepEqual(faults(messages, schemaOf("event"), { type: "event", event: one }), [], one.id);
});

test("the scripted server of these tests speaks it too", async () => {
  assert.deepEqual(faults(messages, schemaOf("event"), { type: "event", event: event(1) }), []);
  assert.deepEqual(faults(messages, schemaOf("subscribed"), { type: "subscribed", job: JOB, after: 1 }), []);
  assert.notDeepEqual(faults(messages, schemaOf("event"), { type: "event", event: { ...event(1), sequence: "1" } }), []);
  assert.ok(Server);
});
