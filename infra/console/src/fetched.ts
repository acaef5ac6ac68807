import { useEffect, useRef, useState } from "preact/hooks";

/** Something that is fetched; fetched again when `key` changes, and every `everyMs` while somebody looks. */
export function useFetched<T>(fetch: (signal: AbortSignal) => Promise<T>, key: unknown, everyMs?: number) {
  const [state, setState] = useState<{ value?: T; error?: unknown; key?: unknown }>({});
  const [round, setRound] = useState(0);
  const busy = useRef(false);
  useEffect(() => {
    const abort = new AbortController();
    busy.current = true;
    fetch(abort.signal)
      .then((value) => setState({ value, key }))
      .catch((error) => {
        if (!abort.signal.aborted) setState((before) => ({ ...before, error, key }));
      })
      .finally(() => (busy.current = false));
    return () => abort.abort();
  }, [key, round]);
  useEffect(() => {
    if (everyMs === undefined) return;
    const again = () => !document.hidden && !busy.current && setRound((before) => before + 1);
    const timer = setInterval(again, everyMs);
    document.addEventListener("visibilitychange", again);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", again);
    };
  }, [everyMs]);
  // What belongs to another key is not shown under this one.
  const current = state.key === key ? state : {};
  return { ...current, again: () => setRound((before) => before + 1) };
}
