/**
 * A value from a model, a tool or a caller. It is shown as text, or as Markdown that has been sanitized; never as HTML of
 * its own.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import { json, plural } from "../format.ts";
import { Copy } from "./buttons.tsx";

/** Members of an object or list that are shown before somebody asks for more. */
const MEMBERS_SHOWN = 50;
/** Depth to which a tree is open at first. */
const DEPTH_OPEN = 2;

export function Tree({ value, name, depth = 0 }: { value: unknown; name?: string; depth?: number }) {
  const [all, setAll] = useState(false);
  const label = name !== undefined && <span class="key">{name}: </span>;
  if (typeof value !== "object" || value === null) return <div class="leaf">{label}<Leaf value={value} /></div>;
  const members = Array.isArray(value) ? value.map((one, at) => [String(at), one] as const) : Object.entries(value);
  if (members.length === 0) return <div class="leaf">{label}{Array.isArray(value) ? "[ ]" : "{ }"}</div>;
  const shown = all ? members : members.slice(0, MEMBERS_SHOWN);
  return (
    <details class="tree" open={depth < DEPTH_OPEN && members.length <= 20}>
      <summary>
        {label}
        <span class="quiet">{Array.isArray(value) ? `list of ${members.length}` : plural(members.length, "field")}</span>
      </summary>
      {shown.map(([key, one]) => <Tree key={key} value={one} name={key} depth={depth + 1} />)}
      {shown.length < members.length && (
        <button type="button" class="plain small" onClick={() => setAll(true)}>{members.length - shown.length} more</button>
      )}
    </details>
  );
}

function Leaf({ value }: { value: unknown }) {
  if (typeof value === "string") {
    return value.includes("\n") || value.length > 120 ? <pre class="text">{value}</pre> : <span class="string">{value}</span>;
  }
  return <span class="scalar">{String(value)}</span>;
}

/** A text, long enough and with marks enough, that is worth reading as Markdown. */
function markdownIn(value: unknown): string | undefined {
  const text = typeof value === "string" ? value : undefined;
  return text !== undefined && text.length > 60 && /^#{1,4} |^[-*] |\*\*|^> |\n\n/m.test(text) ? text : undefined;
}

/** The part of a value that a person wants to read: a text of its own, or the one long text among its fields. */
export function readable(value: unknown): string | undefined {
  const whole = markdownIn(value);
  if (whole !== undefined || typeof value !== "object" || value === null || Array.isArray(value)) return whole;
  const texts = Object.values(value).map(markdownIn).filter((text) => text !== undefined);
  return texts.length > 0 ? texts.reduce((a, b) => (b.length > a.length ? b : a)) : undefined;
}

/** A value, to be read or to be looked into. */
export function Value({ value, what }: { value: unknown; what: string }) {
  const text = readable(value);
  const [asText, setAsText] = useState(true);
  return (
    <div class="value">
      <div class="tools">
        {text !== undefined && (
          <div class="switch" role="group" aria-label={`How to show ${what}`}>
            <button type="button" aria-pressed={asText} onClick={() => setAsText(true)}>Read</button>
            <button type="button" aria-pressed={!asText} onClick={() => setAsText(false)}>Fields</button>
          </div>
        )}
        <Copy text={typeof value === "string" ? value : json(value)} what={what} />
      </div>
      {text !== undefined && asText ? <Markdown text={text} /> : <Tree value={value} />}
    </div>
  );
}

export function Markdown({ text }: { text: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [ready, setReady] = useState(false);
  useEffect(() => {
    let wanted = true;
    void import("./markdown.ts").then(({ render }) => {
      if (!wanted || !place.current) return;
      place.current.replaceChildren(render(text));
      setReady(true);
    });
    return () => {
      wanted = false;
    };
  }, [text]);
  return (
    <>
      {!ready && <pre class="text">{text}</pre>}
      <div class="markdown" ref={place} hidden={!ready} />
    </>
  );
}
