// Rows of runs that are out: typed into by several people at a time, and none of them loses anything.
import { say, send } from "./sending.js";

const MOST_DONE = 12;
const form = document.getElementById("runs-form");
const body = document.getElementById("runs-body");
const rowOf = (trial) => body.querySelector(`tr[data-trial="${trial}"]`);
const entryOf = (row) => row.querySelector("input[name^='outcome-']");
const levelsOf = (row) => [...row.querySelectorAll("[name^='observed-']")]; // what levers took that were left alone
const isTyped = (row) => Boolean(entryOf(row)?.value.trim()) || levelsOf(row).some((level) => level.value);

export function shownTrials() { return [...body.rows].map((row) => row.dataset.trial); }

// new rows are added; rows that others have done say so; a row with something typed in it keeps that
export function mergeRuns(fresh) {
  if (!fresh) return;
  const sending = form.hasAttribute("aria-busy"); // its answer comes first, and another look after it
  for (const row of [...fresh.rows]) {
    const old = rowOf(row.dataset.trial);
    if (!old) { insert(row); continue; }
    if (sending) continue;
    if (row.dataset.state === "open" && old.dataset.state === "open") continue;
    if (!isTyped(old) && !old.contains(document.activeElement)) { if (old.innerHTML !== row.innerHTML) old.replaceWith(row); continue; }
    if (row.dataset.state === old.dataset.state) continue;
    old.dataset.state = row.dataset.state;
    const became = row.querySelector(".became")?.textContent ?? "";
    problem(old, `${became}. What you typed was not saved.`, became.startsWith("told"));
  }
  // rows that are done leave after a while, the oldest first
  const done = [...body.rows].filter((row) => row.dataset.state === "closed" && !isTyped(row) && !row.contains(document.activeElement));
  for (const row of done.slice(0, -MOST_DONE)) row.remove();
  form.hidden = !body.rows.length;
}

function insert(row) {
  const after = [...body.rows].find((other) => Number(other.dataset.trial) > Number(row.dataset.trial));
  body.insertBefore(row, after ?? null);
}

// an outcome far from what was expected: stored if whoever typed it says so, by the button below the rows
function ask(row) {
  row.querySelector("input[name^='asked-']")?.remove();
  const asked = Object.assign(document.createElement("input"), { type: "hidden", name: `asked-${row.dataset.trial}`, value: entryOf(row).value.trim() });
  row.querySelector("p.problem").after(asked);
}

function unask(row) { // it was mended, or stored
  const asked = row.querySelector("input[name^='asked-']");
  if (!asked) return;
  asked.remove();
  row.classList.remove("wrong");
  entryOf(row)?.removeAttribute("aria-invalid");
  row.querySelector("p.problem").hidden = true;
}

function problem(row, text, mayCorrect) {
  row.classList.add("wrong");
  entryOf(row)?.setAttribute("aria-invalid", "true");
  const place = row.querySelector("p.problem");
  place.textContent = text;
  place.hidden = false;
  row.querySelector(".correct")?.remove();
  if (!mayCorrect) return;
  row.querySelector("details.fail")?.remove();
  row.querySelector("button[name=save]")?.remove();
  const trial = row.dataset.trial, box = document.createElement("span");
  box.className = "correct";
  const label = Object.assign(document.createElement("label"), { htmlFor: `reason-${trial}`, textContent: "To correct it, say why" });
  const reason = Object.assign(document.createElement("input"), { id: `reason-${trial}`, name: `reason-${trial}`, maxLength: 500, autocomplete: "off" });
  const button = Object.assign(document.createElement("button"), { name: "correct", value: trial, textContent: "Correct" });
  button.setAttribute("formaction", `${document.body.dataset.study}/correct`);
  box.append(label, " ", reason, " ", button);
  place.after(box);
}

function mark() {
  let n = 0;
  for (const row of body.rows) { const typed = isTyped(row) && row.dataset.state === "open"; row.classList.toggle("unsaved", typed); n += typed && Boolean(entryOf(row).value.trim()); }
  const all = document.getElementById("save-all");
  if (all) all.textContent = n ? `Save all (${n})` : "Save all";
  const insist = document.getElementById("insist");
  if (insist) insist.hidden = !body.querySelector("input[name^='asked-']");
}

function settled(trial) { // saved, or reported: the server's row comes with the next look
  const row = rowOf(trial), entry = row && entryOf(row);
  if (entry) { entry.value = ""; unask(row); }
  if (row) for (const level of levelsOf(row)) level.value = "";
  if (row?.contains(document.activeElement)) next(row)?.focus();
}

function next(row) {
  for (let other = row.nextElementSibling; other; other = other.nextElementSibling) {
    const entry = other.dataset.state === "open" && entryOf(other);
    if (entry) return entry;
  }
  return document.getElementById("save-all");
}

export function readyRuns(refresh) {
  form.addEventListener("input", (event) => {
    if (event.target.name?.startsWith("outcome-")) unask(event.target.closest("tr"));
    mark();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || !event.target.matches("input")) return;
    event.preventDefault();
    if (event.target.name.startsWith("reason-")) { event.target.parentElement.querySelector("button")?.click(); return; }
    next(event.target.closest("tr"))?.focus();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = event.submitter;
    const action = button?.getAttribute("formaction") ?? form.action;
    const data = new FormData(form);
    if (button?.name) data.set(button.name, button.value);
    form.setAttribute("aria-busy", "true");
    const found = await send(action, data);
    form.removeAttribute("aria-busy");
    say(found.kind, found.message);
    for (const trial of found.saved ?? []) settled(trial);
    if (found.ok && found.trial !== undefined) { settled(found.trial); rowOf(found.trial)?.querySelector(".correct")?.remove(); }
    for (const { trial, problem: text, may_correct: mayCorrect, asked } of found.problems ?? []) {
      const row = rowOf(trial);
      if (!row) continue;
      problem(row, text, mayCorrect);
      if (asked) ask(row);
    }
    mark();
    refresh();
  });
  // what is typed and not saved is worth a question before the page goes
  addEventListener("beforeunload", (event) => { if ([...body.rows].some((row) => isTyped(row) && row.dataset.state === "open")) event.preventDefault(); });
  mark();
}
