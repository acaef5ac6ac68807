/** The time, for ages and for bars that grow: one timer for all, asleep while nobody looks. */
import { signal } from "@preact/signals";

export const now = signal(Date.now());

setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 500);

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) now.value = Date.now();
});
