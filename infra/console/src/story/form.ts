/**
 * A form out of a JSON Schema: the kinds of field that agents' inputs have. What no field can show is edited as JSON;
 * whether an input is right is decided by the server alone.
 */

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  examples?: unknown[];
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  minItems?: number;
  maxItems?: number;
}

export type FieldKind = "text" | "long text" | "number" | "integer" | "yes or no" | "choice" | "lines" | "json";

export interface Field {
  name: string;
  label: string;
  kind: FieldKind;
  required: boolean;
  schema: Schema;
  help?: string;
  options?: unknown[];
}

/** A text that may be longer than this gets several lines. */
const LINE_LENGTH_MAX = 200;

function typeOf(schema: Schema): string | undefined {
  if (typeof schema.type === "string") return schema.type;
  return schema.type?.find((type) => type !== "null");
}

function kindOf(schema: Schema): FieldKind {
  if (Array.isArray(schema.enum)) return "choice";
  switch (typeOf(schema)) {
    case "string":
      return (schema.maxLength ?? 0) > LINE_LENGTH_MAX && !schema.format && !schema.pattern ? "long text" : "text";
    case "integer":
      return "integer";
    case "number":
      return "number";
    case "boolean":
      return "yes or no";
    case "array":
      return schema.items && typeOf(schema.items) === "string" && !schema.items.enum ? "lines" : "json";
    default:
      return "json";
  }
}

/** The fields of an object's schema, those that must be filled in first; none when it is no such schema. */
export function fieldsOf(schema: Schema): Field[] | undefined {
  if (typeOf(schema) !== "object" || !schema.properties || schema.anyOf || schema.oneOf) return undefined;
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties).map(([name, part]): Field => ({
    name,
    label: part.title ?? name.replaceAll("_", " "),
    kind: kindOf(part),
    required: required.has(name),
    schema: part,
    help: part.description,
    options: part.enum,
  }));
  return [...fields.filter((field) => field.required), ...fields.filter((field) => !field.required)];
}

/** Whether fields show all that an input holds. */
export function isCovered(fields: Field[], input: unknown): boolean {
  if (input === undefined) return true;
  if (typeof input !== "object" || input === null || Array.isArray(input)) return false;
  const names = new Set(fields.map((field) => field.name));
  return Object.keys(input).every((name) => names.has(name));
}

/** What stands in a field for a value. */
export function shown(kind: FieldKind, value: unknown): string {
  if (value === undefined) return "";
  switch (kind) {
    case "text":
    case "long text":
      return typeof value === "string" ? value : JSON.stringify(value);
    case "lines":
      return Array.isArray(value) ? value.join("\n") : "";
    case "json":
      return typeof value === "string" ? value : JSON.stringify(value, null, 2);
    case "number":
    case "integer":
    case "yes or no":
    case "choice":
      return typeof value === "string" ? value : JSON.stringify(value);
  }
}

export type Read = { value: unknown } | { fault: string };

/** The value that stands in a field; an empty one is no value. */
export function read(field: Field, text: string): Read {
  if (text.trim() === "") return { value: undefined };
  switch (field.kind) {
    case "text":
    case "long text":
      return { value: text };
    case "lines":
      return { value: text.split("\n").map((line) => line.trim()).filter((line) => line !== "") };
    case "integer":
    case "number": {
      const value = Number(text);
      if (!Number.isFinite(value)) return { fault: "must be a number" };
      if (field.kind === "integer" && !Number.isInteger(value)) return { fault: "must be a whole number" };
      return { value };
    }
    case "yes or no":
      return { value: text === "true" };
    case "choice":
      return { value: field.options?.find((option) => shown("choice", option) === text) };
    case "json":
      return readJson(field.schema, text);
  }
}

/** Whether a plain text may stand for a value. */
export const takesText = (schema: Schema) =>
  [schema, ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].some((one) => typeOf(one) === "string");

/** JSON, or a plain text where the schema takes one (the path of a file, say). */
function readJson(schema: Schema, text: string): Read {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    const meansJson = /^\s*[[{"]/.test(text);
    return takesText(schema) && !meansJson ? { value: text.trim() } : { fault: `is no JSON: ${(error as Error).message}` };
  }
}

/**
 * What the server has against a field of the input, by the field's name; what it has against the whole stands under "". The
 * input of a schedule stands in its job.
 */
export function faultsByField(violations: { field: string; detail: string }[]): Record<string, string> {
  const faults: Record<string, string> = {};
  for (const { field, detail } of violations) {
    const name = /^(?:\/job)?\/input\/([^/]+)/.exec(field)?.[1]?.replaceAll("~1", "/").replaceAll("~0", "~") ?? "";
    faults[name] = faults[name] ? `${faults[name]}; ${detail}` : detail;
  }
  return faults;
}

/** Labels out of lines of `name=value`. */
export function labelsOf(text: string): Record<string, string> {
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf("=");
    return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}

/** The lines of labels. */
export const labelsText = (labels: Record<string, string> = {}): string =>
  Object.entries(labels).map(([name, value]) => `${name}=${value}`).join("\n");
