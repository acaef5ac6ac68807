/** The console: what people see of jobs, and what they do with them. */
import { render, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import "./style.css";
import { Fault } from "./parts/fault.tsx";
import { reread, route } from "./route.ts";
import { caller, connect, expired, settings, signOut, takeTokenFromAddress, token } from "./session.ts";
import { ThemeChoice } from "./parts/theme.tsx";
import { Agents } from "./views/agents.tsx";
import { Dashboard } from "./views/dashboard.tsx";
import { DeadLetters } from "./views/dead_letters.tsx";
import { Job } from "./views/job.tsx";
import { Jobs } from "./views/jobs.tsx";
import { Schedules } from "./views/schedules.tsx";
import { SignIn } from "./views/sign_in.tsx";
import { Submit } from "./views/submit.tsx";

const PAGES: [string, string, ComponentType][] = [
  ["jobs", "Jobs", Jobs],
  ["submit", "Submit", Submit],
  ["dead-letters", "Dead letters", DeadLetters],
  ["schedules", "Schedules", Schedules],
  ["agents", "Agents", Agents],
  ["dashboard", "Dashboard", Dashboard],
];

function Console() {
  const { page, rest } = route.value;
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    connect().catch(setError);
  }, []);
  if (token.value === undefined) return <main id="main"><SignIn /></main>;
  const Page = page === "jobs" && rest ? Job : PAGES.find(([name]) => name === page)?.[2];
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>To the content</a>
      <Top page={page} />
      <main id="main" tabIndex={-1}>
        <Fault error={error} />
        {settings.value && (Page ? <Page /> : <p class="empty">There is no such page. <a href="#/jobs">Jobs</a></p>)}
      </main>
      <footer class="bottom">
        Longhaul {settings.value?.version} · <a href="./licences.txt">licences of what this page is made with</a>
      </footer>
      {expired.value && <div class="veil" role="dialog" aria-modal="true" aria-labelledby="sign-in"><SignIn again /></div>}
    </>
  );
}

function Top({ page }: { page: string }) {
  const who = caller();
  return (
    <header class="top">
      <a class="brand" href="#/jobs"><img src="./icon.svg" alt="" width="22" height="22" />Longhaul</a>
      <nav aria-label="Pages">
        {PAGES.map(([name, text]) => (
          <a key={name} href={`#/${name}`} aria-current={page === name ? "page" : undefined}>{text}</a>
        ))}
      </nav>
      <div class="who">
        {who && <span title={`${who.subject} of tenant ${who.tenant}`}>{who.tenant}</span>}
        <ThemeChoice />
        <button type="button" class="plain small" onClick={signOut}>Sign out</button>
      </div>
    </header>
  );
}

takeTokenFromAddress();
reread();
// A token that is pasted into the address of a page that is open already.
addEventListener("hashchange", () => location.hash.startsWith("#token=") && location.reload());
const place = document.getElementById("console");
if (place) render(<Console />, place);
