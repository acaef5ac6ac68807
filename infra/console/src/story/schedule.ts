/** A schedule as the fields of its form hold it, and back. */
import type { ScheduleRequest } from "../wire.ts";

export interface ScheduleText {
  cron: string;
  time_zone: string;
  paused: boolean;
  thread: string;
  on_busy: string;
}

/** What is done while another job of the thread has not ended, in the API's words and in a person's. */
export const ON_BUSY: [string, string][] = [
  ["enqueue", "wait for its turn"],
  ["reject", "submit nothing this time"],
  ["interrupt", "cancel it and go next"],
];

/** Times that many ask for, with what they mean. */
export const USUAL: [string, string][] = [
  ["@hourly", "every hour"],
  ["0 7 * * *", "every day at seven"],
  ["0 7 * * MON-FRI", "on working days at seven"],
  ["0 9 * * MON", "on Mondays at nine"],
  ["0 6 1 * *", "on the first of each month"],
];

/** What stands in the fields of a schedule, or of a new one for somebody in a time zone. */
export function scheduleText(schedule: ScheduleRequest | undefined, zone: string): ScheduleText {
  return {
    cron: schedule?.cron ?? "",
    time_zone: schedule ? schedule.time_zone : zone,
    paused: schedule?.paused ?? false,
    thread: schedule?.job.thread ?? "",
    on_busy: schedule?.job.on_busy ?? "enqueue",
  };
}

/** What is wrong with a name for a new schedule, before anybody is asked. */
export const nameFault = (name: string): string | undefined =>
  /^[\w.:-]{1,64}$/.test(name) ? undefined : "must be 1 to 64 letters, digits, -, _, . and :";

type Submission = ScheduleRequest["job"];

/** The request that the fields make. What they do not show of the one before (its webhook, say) stays as it was. */
export function scheduleOf(text: ScheduleText, job: Submission, before?: ScheduleRequest): ScheduleRequest {
  const { budget, thread, on_busy, ...kept }: Partial<Submission> = before?.job ?? {};
  const named = text.thread.trim();
  return {
    ...before,
    cron: text.cron.trim(),
    time_zone: text.time_zone.trim() || "UTC",
    paused: text.paused,
    job: { ...kept, ...job, ...(named ? { thread: named, on_busy: text.on_busy as Submission["on_busy"] } : {}) },
  };
}
