/** Who has worked on a job: each claim with its number, its session and what came of it. */
import { now } from "../clock.ts";
import { duration, exact, moment } from "../format.ts";
import type { Story } from "../story/fold.ts";

export function Invocations({ story, works }: { story: Story; works: boolean }) {
  const { claims } = story;
  if (claims.length === 0) return null;
  const idle = (at: number) => {
    const before = claims[at - 1];
    return before ? duration(claims[at]!.at - before.lastAt) : "–";
  };
  return (
    <details class="card">
      <summary><h2>Invocations <span class="quiet">{exact(claims.length)}</span></h2></summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="Invocations">
        <table>
          <thead>
            <tr>
              <th scope="col" class="number">Epoch</th><th scope="col">Claimed</th><th scope="col" class="number">Idle before</th>
              <th scope="col" class="number">Worked</th><th scope="col">Session</th><th scope="col">How it came to it</th>
            </tr>
          </thead>
          <tbody>
            {claims.map((claim, at) => {
              const last = at === claims.length - 1 && works;
              return (
                <tr key={claim.epoch}>
                  <td class="number">{claim.epoch}</td>
                  <td>{moment(claim.at)}</td>
                  <td class="number">{idle(at)}</td>
                  <td class="number">{duration((last ? now.value : claim.lastAt) - claim.at)}{last && " …"}</td>
                  <td><code>{claim.session}</code></td>
                  <td>{claim.takeover ? "the worker before it died" : at === 0 ? "first" : "went on"}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </details>
  );
}
