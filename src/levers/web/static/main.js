// What every page does, and which module its kind of page needs.
import { localTimes } from "./times.js";

const theme = document.getElementById("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const root = document.documentElement;
  const now = root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  try { localStorage.setItem("levers-theme", root.dataset.theme); } catch { /* for this page only, then */ }
});

localTimes(document);
const print = document.getElementById("print");
if (print) { print.hidden = false; print.addEventListener("click", () => window.print()); }

const kind = document.body.dataset.page;
if (kind === "new") await import("./new.js");
if (kind === "study") await import("./study.js");
if (kind === "trials") {
  // a level belongs to a factor: choosing another factor asks for its levels
  const factor = document.getElementById("factor");
  factor.addEventListener("change", () => { document.getElementById("level").value = ""; factor.form.requestSubmit(); });
}
