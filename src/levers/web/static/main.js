// What every page does. Pages that do more name a module of their own, which is there before the page counts as loaded.
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

if (document.body.dataset.page === "trials") {
  // a level belongs to a factor: choosing another factor asks for its levels
  const factor = document.getElementById("factor");
  factor.addEventListener("change", () => { document.getElementById("level").value = ""; factor.form.requestSubmit(); });
}
