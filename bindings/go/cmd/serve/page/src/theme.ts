// Light or dark: as the system has it, unless the user chooses.
export const themes = ["auto", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

const name = "realizar-theme";

export function theme(): Theme {
  try {
    return themes.find((one) => one === localStorage.getItem(name)) ?? "auto";
  } catch {
    return "auto";
  }
}

export function applyTheme(chosen: Theme = theme()): void {
  try {
    localStorage.setItem(name, chosen);
  } catch {
    // not kept
  }
  document.documentElement.dataset.theme = chosen;
}
