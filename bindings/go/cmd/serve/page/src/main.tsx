// The entry of the page.
import { render } from "preact";
import { App } from "./app";
import { watchMetrics } from "./metrics";
import { start } from "./store";
import { applyTheme } from "./theme";

applyTheme();
render(<App />, document.getElementById("page")!);
void start();
watchMetrics();
