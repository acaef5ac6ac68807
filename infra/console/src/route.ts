/** Where the reader is: behind the `#` of the address, so that the server need not know the console's pages. */
import { signal } from "@preact/signals";

export interface Route {
  page: string;
  /** What follows the page's name, such as a job's id. */
  rest: string;
  query: URLSearchParams;
}

function read(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page = "", ...rest] = path.split("/");
  return { page: page || "jobs", rest: rest.map(decodeURIComponent).join("/"), query: new URLSearchParams(query) };
}

export const route = signal<Route>(read());

/** Reads the address anew, after it was changed without a word to anybody. */
export function reread(): void {
  route.value = read();
}

addEventListener("hashchange", () => {
  reread();
  scrollTo(0, 0);
});

export function go(to: string): void {
  location.hash = to;
}

/** The same page under another filter, without an entry in the history for each key that is pressed. */
export function filter(page: string, values: Record<string, string>): void {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));
  const text = query.toString();
  history.replaceState(null, "", `#/${page}${text && `?${text}`}`);
  reread();
}
