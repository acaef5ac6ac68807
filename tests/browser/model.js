/** A model by a script: a Chat Completions server that answers what a test wants, and remembers what it was asked. */
import { once } from "node:events";
import { createServer } from "node:http";

export class ScriptedModel {
  /** Requests, in order. */
  asked = [];

  /** @param {(request: any, number: number) => { text?: string, calls?: [string, object][], status?: number }} answer */
  static async start(answer) {
    const model = new ScriptedModel();
    model.server = createServer(async (request, response) => {
      let text = "";
      for await (const piece of request) text += piece;
      const body = JSON.parse(text);
      model.asked.push(body);
      const { text: said = null, calls = [], status = 200 } = answer(body, model.asked.length);
      response.writeHead(status, { "content-type": "application/json" });
      if (status !== 200) return void response.end(JSON.stringify({ error: { message: "the model was told to refuse this", type: "invalid_request_error" } }));
      const tool_calls = calls.map(([name, given], at) => ({ id: `call_${model.asked.length}_${at}`, type: "function", function: { name, arguments: JSON.stringify(given) } }));
      const message = { role: "assistant", content: said, ...(calls.length > 0 ? { tool_calls } : {}) };
      response.end(JSON.stringify({
        model: body.model, choices: [{ index: 0, message, finish_reason: calls.length > 0 ? "tool_calls" : "stop" }],
        usage: { prompt_tokens: 1_000, completion_tokens: 200, total_tokens: 1_200 },
      }));
    });
    model.server.listen(0, "127.0.0.1");
    await once(model.server, "listening");
    model.address = `http://127.0.0.1:${model.server.address().port}/v1`;
    return model;
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }
}
