/**
 * What the API answers when it refuses (RFC 9457). Decide by `type`.
 * @typedef {object} ProblemBody
 * @property {string} type
 * @property {string} title
 * @property {number} status
 * @property {string} detail what was attempted, with what, and what to do next
 * @property {string | null} [field] the field at fault, as a JSON pointer into the request
 * @property {string | null} [request_id]
 * @property {{ field: string, detail: string }[]} [violations]
 * @property {string} [streams] where events come as a stream
 */

/** A refusal of the API. */
export class LonghaulProblem extends Error {
  /** @param {ProblemBody} body */
  constructor(body) {
    super(`${body.title}: ${body.detail}`);
    this.name = "LonghaulProblem";
    this.body = body;
    this.status = body.status;
    this.type = body.type;
  }
}

/** The API did not answer: the network, or what stands at that address is no Longhaul. */
export class Unreachable extends Error {
  /**
   * @param {string} message
   * @param {unknown} [cause]
   */
  constructor(message, cause) {
    super(message, { cause });
    this.name = "Unreachable";
  }
}

/**
 * Reads the problem out of an answer that is none of success.
 * @param {Response} response
 */
export async function problemOf(response) {
  const text = await response.text().catch(() => "");
  try {
    const body = JSON.parse(text);
    if (typeof body.type === "string" && typeof body.title === "string") return new LonghaulProblem(body);
  } catch {
    // A gateway in between has answered, in its own words.
  }
  return new LonghaulProblem({
    type: "about:blank",
    title: response.statusText || `Status ${response.status}`,
    status: response.status,
    detail: text.slice(0, 200),
  });
}
