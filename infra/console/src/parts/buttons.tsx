/** Buttons that say what became of a click. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

export function Copy({ text, what }: { text: string; what: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  };
  return (
    <button type="button" class="plain small" onClick={copy} aria-label={`Copy ${what}`}>
      {done ? "Copied" : "Copy"}
    </button>
  );
}

/** A button that does something which takes a while, once. */
export function Act({ does, class: kind = "", children, disabled }: {
  does: () => Promise<void>; class?: string; children: ComponentChildren; disabled?: boolean;
}) {
  const [busy, setBusy] = useState(false);
  const click = async () => {
    setBusy(true);
    try {
      await does();
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" class={kind} onClick={click} disabled={busy || disabled} aria-busy={busy}>{children}</button>
  );
}
