/**
 * Server-sent events (WHATWG HTML, 9.2) out of a body that is read by `fetch`: an `EventSource` of a browser can send no
 * token.
 */

/**
 * The events of a stream, each with the id that stands at it.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{ id: string, data: string }>}
 */
export async function* serverSentEvents(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let id = "";
  /** @type {string[]} */
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      // An event that breaks off is none: without the empty line behind it, it may be the half of one.
      if (done) return;
      text += decoder.decode(value, { stream: true });
      for (;;) {
        const line = /^([^\r\n]*)(\r\n|\n|\r(?=[^]))/.exec(text);
        if (!line) break;
        text = text.slice(line[0].length);
        const content = line[1] ?? "";
        if (content === "") {
          if (data.length > 0) yield { id, data: data.join("\n") };
          data = [];
          continue;
        }
        const [, name, field] = /^([^:]*):? ?([^]*)$/.exec(content) ?? [];
        if (name === "data") data.push(field ?? "");
        else if (name === "id" && !field?.includes("\0")) id = field ?? "";
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
