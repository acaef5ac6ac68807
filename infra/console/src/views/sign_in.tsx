/** The question for a token. */
import { useState } from "preact/hooks";
import { claimsOf, expiryOf } from "longhaul-client";
import { signIn } from "../session.ts";

export function SignIn({ again }: { again?: boolean }) {
  const [text, setText] = useState("");
  const [fault, setFault] = useState<string>();
  const submit = (event: Event) => {
    event.preventDefault();
    const given = text.trim();
    const expiry = expiryOf(given);
    if (!claimsOf(given)) setFault("This is no token: it has three parts with dots between.");
    else if (expiry !== undefined && expiry < Date.now()) setFault("This token has expired; get a new one.");
    else signIn(given);
  };
  return (
    <form class="card sign-in" onSubmit={submit} aria-labelledby="sign-in">
      <h1 id="sign-in">{again ? "Your token is not good any more" : "A token, please"}</h1>
      <p>
        {again ? "Paste a new one and go on where you were." : "Everything here belongs to the tenant of a token."} On your own
        machine, <code>longhaul token</code> prints one; elsewhere your identity provider gives it.
      </p>
      <div class="field">
        <label for="token">Token</label>
        <textarea
          id="token" class="code" rows={4} autocomplete="off" spellcheck={false} autoFocus value={text}
          aria-invalid={fault !== undefined} aria-describedby="token-fault" onInput={(event) => setText(event.currentTarget.value)}
        />
        <p class="field-fault" id="token-fault" aria-live="polite">{fault}</p>
      </div>
      <p class="help">It stays in this tab and is forgotten when you close it.</p>
      <div class="tools"><button type="submit" class="primary" disabled={text.trim() === ""}>Go on</button></div>
    </form>
  );
}
