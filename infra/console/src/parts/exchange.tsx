/** What went to a model or a tool and what came back. Texts are theirs, so they are shown as texts. */
import { plural } from "../format.ts";
import { sentOf, type Answer, type Call, type SentMessage } from "../story/exchange.ts";
import { Tree, Value } from "./value.tsx";

export function Calls({ calls }: { calls: Call[] }) {
  return (
    <ul class="calls" aria-label="Calls">
      {calls.map((call, at) => (
        <li key={at}>
          <details>
            <summary>calls <code>{call.name}</code></summary>
            <Tree value={call.arguments} />
          </details>
        </li>
      ))}
    </ul>
  );
}

/** A model's answer: its words, and the calls that it asks for. */
export function AnswerShown({ answer, what }: { answer: Answer; what: string }) {
  return (
    <div class="answer">
      {answer.model && <p class="quiet">{answer.model} answered{answer.calls.length > 0 && ` with ${plural(answer.calls.length, "call")}`}:</p>}
      {answer.text !== "" && <Value value={answer.text} what={what} />}
      <Calls calls={answer.calls} />
    </div>
  );
}

/** What a failed step had sent to a model, each message folded but the last. */
export function SentShown({ value }: { value: unknown }) {
  const sent = sentOf(value);
  if (!sent) return null;
  return (
    <section class="sent" aria-label="What was sent to the model">
      <p class="quiet">
        {plural(sent.messages.length, "message")} to {sent.model ? <code>{sent.model}</code> : "the model"}
        {sent.tools.length > 0 && <>, with the tools {sent.tools.map((name) => <code key={name}>{name}</code>)}</>}
      </p>
      <ol>{sent.messages.map((message, at) => <Message key={at} message={message} open={at === sent.messages.length - 1} />)}</ol>
    </section>
  );
}

function Message({ message, open }: { message: SentMessage; open: boolean }) {
  if ("leftOut" in message) return <li class="quiet">… {plural(message.leftOut, "message")} between</li>;
  const first = message.text.trim().split("\n", 1)[0] ?? "";
  return (
    <li>
      <details open={open}>
        <summary><b>{message.role}</b> <span class="quiet beginning">{first.slice(0, 90)}</span></summary>
        <pre class="text" tabIndex={0}>{message.text}</pre>
        <Calls calls={message.calls} />
      </details>
    </li>
  );
}
