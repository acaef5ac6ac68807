/** Which dead letters are meant: by agent, by the class of the failure, by a text of theirs. */
import type { Job } from "../wire.ts";

export interface DeadFilter {
  agent: string;
  failure: string;
  text: string;
}

/** Whether a letter is meant; an empty part of the filter says nothing. */
export function matches(job: Job, { agent, failure, text }: DeadFilter): boolean {
  if (agent !== "" && job.agent !== agent) return false;
  if (failure !== "" && job.failure?.class !== failure) return false;
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return true;
  const labels = Object.entries(job.labels ?? {}).map(([name, value]) => `${name}=${value}`);
  const texts = [job.id, job.submitted_by, job.failure?.message ?? "", ...(job.failure?.causes ?? []), ...labels];
  return texts.some((one) => one.toLowerCase().includes(wanted));
}

/** Whether a letter can be opened again: no worker would go on with a job that was imported. */
export const canOpen = (job: Job): boolean => !job.imported_at;

export const classesOf = (jobs: Job[]): string[] => [...new Set(jobs.flatMap((job) => (job.failure ? [job.failure.class] : [])))];
