/** The shapes of the API, as `openapi.json` describes them. */
import type { components } from "./generated/openapi.d.ts";

type Schemas = components["schemas"];

export type Job = Schemas["JobView"];
export type JobSummary = Schemas["JobSummary"];
export type JobList = Schemas["JobList"];
export type DeadLetterList = Schemas["DeadLetterList"];
export type Agent = Schemas["AgentCard"];
export type AgentView = Schemas["AgentView"];
export type Failure = Schemas["FailureView"];
export type Usage = Schemas["Usage"];
export type Budget = Schemas["Budget"];
export type Status = Job["status"];
export type Journal = Schemas["JournalView"];
export type Entry = Schemas["EntryView"];
export type Delivery = Schemas["DeliveryView"];
export type DeliveryList = Schemas["DeliveryList"];
export type Taken = Schemas["TakenIn"];
export type Schedule = Schemas["ScheduleView"];
export type ScheduleRequest = Schemas["ScheduleRequest"];
export type ScheduleList = Schemas["ScheduleList"];
export type Firing = Schemas["FiringView"];
export type { JobEvent } from "../../../clients/js/src/order.js";

export const STATUSES: Status[] = ["PENDING", "PROCESSING", "WAITING", "BLOCKED", "COMPLETED", "FAILED", "CANCELLED"];

const OVER: readonly Status[] = ["COMPLETED", "FAILED", "CANCELLED"];

/** Whether only a replay may follow. */
export const isOver = (status: Status) => OVER.includes(status);
