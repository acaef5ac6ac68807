/** The fields of a form that a JSON Schema describes. */
import type { Field } from "../story/form.ts";
import { shown, takesText } from "../story/form.ts";

export function FieldInput({ field, text, fault, onText }: {
  field: Field; text: string; fault?: string; onText: (text: string) => void;
}) {
  const id = `input-${field.name}`;
  const described = `${id}-help ${id}-fault`;
  const common = {
    id, "aria-describedby": described, "aria-invalid": fault !== undefined, required: field.required,
  };
  const { schema, kind } = field;
  const onInput = (event: { currentTarget: { value: string } }) => onText(event.currentTarget.value);
  const fallback = schema.default === undefined ? "" : shown(kind, schema.default);
  return (
    <div class={`field ${kind === "yes or no" ? "check" : ""}`}>
      <label for={id}>
        {field.label}
        {!field.required && <span class="quiet"> optional</span>}
      </label>
      {kind === "yes or no" ? (
        <input
          id={id} type="checkbox" aria-describedby={described} checked={(text || fallback) === "true"}
          onChange={(event) => onText(String(event.currentTarget.checked))}
        />
      ) : kind === "choice" ? (
        <select {...common} value={text} onChange={onInput}>
          <option value="">{fallback ? `default: ${fallback}` : "–"}</option>
          {field.options?.map((option) => {
            const value = shown("choice", option);
            return <option key={value} value={value}>{value}</option>;
          })}
        </select>
      ) : kind === "long text" || kind === "lines" || kind === "json" ? (
        <textarea
          {...common} rows={kind === "json" ? 5 : 2} class={kind === "json" ? "code" : ""} value={text} onInput={onInput}
          placeholder={kind === "lines" ? "One on each line" : fallback} spellcheck={kind === "long text"}
        />
      ) : kind === "text" ? (
        <input
          {...common} type="text" value={text} onInput={onInput} placeholder={fallback && `default: ${fallback}`}
          autocomplete="off"
        />
      ) : (
        <input
          {...common} type="number" step={kind === "integer" ? 1 : "any"} min={schema.minimum} max={schema.maximum}
          value={text} onInput={onInput} placeholder={fallback && `default: ${fallback}`}
        />
      )}
      <p class="help" id={`${id}-help`}>{[field.help, bounds(field)].filter(Boolean).join(" ")}</p>
      <p class="field-fault" id={`${id}-fault`} aria-live="polite">{fault}</p>
    </div>
  );
}

function bounds({ schema, kind }: Field): string {
  if (kind === "number" || kind === "integer") {
    if (schema.minimum !== undefined && schema.maximum !== undefined) return `From ${schema.minimum} to ${schema.maximum}.`;
    if (schema.minimum !== undefined) return `At least ${schema.minimum}.`;
    if (schema.maximum !== undefined) return `At most ${schema.maximum}.`;
  }
  if (kind === "json") return takesText(schema) ? "As a text, or as JSON." : "As JSON.";
  return "";
}

/** The bounds of a job, each none unless it is named. */
export interface BudgetText {
  tokens: string;
  /** In dollars. */
  money_micros: string;
  steps: string;
  wall_seconds: string;
}

const BUDGET: [keyof BudgetText, string, string][] = [
  ["tokens", "Tokens", "In and out of models, all attempts counted."],
  ["money_micros", "Dollars", "By the table of prices; a model without a price is not called then."],
  ["steps", "Steps", "With an outcome."],
  ["wall_seconds", "Seconds", "Since submission, waits included."],
];

export function BudgetFields({ text, onText }: { text: BudgetText; onText: (text: BudgetText) => void }) {
  return (
    <div class="row">
      {BUDGET.map(([name, label, help]) => (
        <div class="field" key={name}>
          <label for={`budget-${name}`}>{label}</label>
          <input
            id={`budget-${name}`} type="number" min={name === "money_micros" ? 0.000001 : 1} step={name === "money_micros" ? "any" : 1} value={text[name]} placeholder="no bound"
            aria-describedby={`budget-${name}-help`}
            onInput={(event) => onText({ ...text, [name]: event.currentTarget.value })}
          />
          <p class="help" id={`budget-${name}-help`}>{help}</p>
        </div>
      ))}
    </div>
  );
}

/** Millionths of a dollar in a dollar. */
const MICROS = 1_000_000;

export const budgetText = (budget: { [name in keyof BudgetText]?: number | null } = {}): BudgetText => ({
  tokens: budget.tokens ? String(budget.tokens) : "",
  money_micros: budget.money_micros ? String(budget.money_micros / MICROS) : "",
  steps: budget.steps ? String(budget.steps) : "",
  wall_seconds: budget.wall_seconds ? String(budget.wall_seconds) : "",
});

/** The budget that stands in the fields; none when none does. */
export function budgetOf(text: BudgetText): Record<string, number> | undefined {
  const given = Object.entries(text).filter(([, value]) => value !== "");
  const parts = given.map(([name, value]) => [name, name === "money_micros" ? Math.round(Number(value) * MICROS) : Number(value)]);
  return parts.length > 0 ? Object.fromEntries(parts) : undefined;
}
