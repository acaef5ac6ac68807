/** JSON that a person edits, and how it differs from what it was. */
import { useEffect, useState } from "preact/hooks";

type Change = { value: string; added?: boolean; removed?: boolean };

export function JsonEditor({ id, label, text, onText, rows = 10 }: {
  id: string; label: string; text: string; onText: (text: string) => void; rows?: number;
}) {
  const fault = jsonFault(text);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id} class="code" rows={rows} spellcheck={false} value={text} aria-invalid={fault !== undefined}
        aria-describedby={`${id}-fault`} onInput={(event) => onText(event.currentTarget.value)}
      />
      <p class="field-fault" id={`${id}-fault`} aria-live="polite">{fault}</p>
    </div>
  );
}

export function jsonFault(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return `This is no JSON yet: ${(error as Error).message}`;
  }
}

/** The lines that changed, with a few around them. */
export function Diff({ before, after, what, json = false }: { before: string; after: string; what: string; json?: boolean }) {
  const [changes, setChanges] = useState<Change[]>([]);
  useEffect(() => {
    let wanted = true;
    // Both end their last line, which would else differ by that alone.
    void import("diff").then(({ diffJson, diffLines }) =>
      wanted && setChanges(json ? diffJson(before, after) : diffLines(`${before}\n`, `${after}\n`)));
    return () => {
      wanted = false;
    };
  }, [before, after]);
  return (
    <pre class="diff" role="region" aria-label={`Changes of ${what}`} tabIndex={0}>
      {changes.flatMap((change, at) =>
        shortened(change, at > 0, at < changes.length - 1).map((line, index) => {
          const kind = change.added ? "added" : change.removed ? "removed" : "same";
          const sign = change.added ? "+" : change.removed ? "−" : " ";
          return <div key={`${at}.${index}`} class={kind}><span aria-hidden="true">{sign} </span>{line}</div>;
        }),
      )}
    </pre>
  );
}

/** Lines of an unchanged part: some behind the change before it, some before the change behind it. */
function shortened(change: Change, hasBefore: boolean, hasAfter: boolean): string[] {
  const lines = change.value.replace(/\n$/, "").split("\n");
  if (change.added || change.removed || lines.length <= 8) return lines;
  const head = hasBefore ? lines.slice(0, 3) : [];
  const tail = hasAfter ? lines.slice(-3) : [];
  return [...head, `… ${lines.length - head.length - tail.length} lines as before`, ...tail];
}
