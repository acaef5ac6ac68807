/** Light, dark, or what the system says. */
import { useState } from "preact/hooks";

const KEY = "longhaul.theme";
type Theme = "auto" | "light" | "dark";
const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const SIGNS: Record<Theme, string> = { auto: "◑", light: "☀", dark: "☾" };

function apply(theme: Theme): void {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event("longhaul-theme"));
}

const stored = (): Theme => {
  const found = localStorage.getItem(KEY);
  return found === "light" || found === "dark" ? found : "auto";
};

apply(stored());

export function ThemeChoice() {
  const [theme, setTheme] = useState(stored);
  const change = () => {
    const next = NEXT[theme];
    localStorage.setItem(KEY, next);
    apply(next);
    setTheme(next);
  };
  return (
    <button type="button" class="plain small" onClick={change} title={`Colours: ${theme}`}>
      <span aria-hidden="true">{SIGNS[theme]}</span><span class="hidden">Colours: {theme}. Change</span>
    </button>
  );
}
