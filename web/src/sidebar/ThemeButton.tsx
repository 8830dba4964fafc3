/** A button that switches between the system, light and dark theme. */
import { useState } from "react";
import { Icon } from "../app/Icon";
import { setTheme, theme, type Theme } from "../app/theme";

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

export function ThemeButton() {
  const [chosen, setChosen] = useState(theme);
  const choose = () => {
    setTheme(NEXT[chosen]);
    setChosen(NEXT[chosen]);
  };
  return (
    <button type="button" className="quiet small" onClick={choose} title="Switch between system, light and dark theme">
      <Icon name="sun" /> Theme: {chosen}
    </button>
  );
}
