// The page of a study: follows what others do, takes outcomes, and never touches what somebody is typing.
import { localTimes } from "./times.js";
import { say, send } from "./sending.js";
import { mergeRuns, shownTrials, readyRuns } from "./runs.js";

const base = document.body.dataset.study;
const live = document.getElementById("live");
const WORDS = { on: "live", lost: "connection lost, trying again", gone: "this study was deleted" };
let seq = Number(document.body.dataset.seq);

function show(state) { live.hidden = false; live.dataset.live = state; live.textContent = WORDS[state]; }

function swap(fresh) {
  for (const panel of fresh.querySelectorAll("[data-panel]")) {
    const old = document.querySelector(`[data-panel="${panel.dataset.panel}"]`);
    if (!old || old.dataset.was === panel.innerHTML || old.contains(document.activeElement) && document.activeElement.matches("input, textarea")) continue;
    const opened = [...old.querySelectorAll("details[open][id]")].map((details) => details.id);
    const focused = old.contains(document.activeElement) ? document.activeElement.id || document.activeElement.closest("[id]")?.id : null;
    const text = panel.innerHTML;
    old.innerHTML = text;
    old.dataset.was = text;
    for (const id of opened) { const details = old.querySelector(`#${CSS.escape(id)}`); if (details) details.open = true; }
    if (focused) { const again = document.getElementById(focused); (again?.querySelector("summary, a, button") ?? again)?.focus?.({ preventScroll: true }); }
    localTimes(old);
  }
  const hero = fresh.querySelector("#hero");
  if (hero) document.getElementById("hero").className = hero.className;
  mergeRuns(fresh.querySelector("[data-runs]"));
  const runs = document.getElementById("runs");
  runs.hidden = fresh.querySelector("#runs").hidden && !document.getElementById("runs-body").rows.length;
}

let busy = false, again = false, last = 0;
export async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  const wait = last + 1000 - Date.now();
  if (wait > 0) await new Promise((go) => setTimeout(go, wait)); // at most once a second
  last = Date.now();
  again = false;
  try {
    const answer = await fetch(`${base}/panels?open=${shownTrials().join(",")}`);
    if (answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      seq = Number(fresh.querySelector("[data-panels]").dataset.seq);
      swap(fresh);
      loadChecks();
    } else if (answer.status === 401) location.reload();
  } catch { /* the stream says whether the service is there */ }
  busy = false;
  if (again) refresh();
}

function follow() {
  const stream = new EventSource(`${base}/stream?since=${seq}`);
  stream.addEventListener("open", () => show("on"));
  stream.addEventListener("changed", (event) => { if (Number(event.data) !== seq) refresh(); });
  stream.addEventListener("gone", () => { stream.close(); show("gone"); });
  stream.addEventListener("error", () => {
    show("lost");
    if (stream.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    setTimeout(follow, 3000);
  });
}

// residuals and interactions take longer to work out: only for those who scroll there
const checks = document.getElementById("checks");
let seen = false, checkedAt = -1;
async function loadChecks() {
  if (!seen || checkedAt === seq || checks.querySelector("details[open]")) return;
  checkedAt = seq;
  try {
    const answer = await fetch(checks.dataset.src);
    if (answer.ok) checks.innerHTML = await answer.text();
  } catch { checkedAt = -1; }
}
new IntersectionObserver((entries) => { seen = entries.some((entry) => entry.isIntersecting); loadChecks(); }, { rootMargin: "200px" }).observe(checks);

// a sheet with outcomes far from what was expected: they are stored when somebody says that they are right
function askAbout(form, held) {
  const button = Object.assign(document.createElement("button"), { id: "insist-sheet", type: "button", textContent: "They are right: store them" });
  button.addEventListener("click", async () => {
    const data = new FormData(form);
    data.delete("sheet");
    data.set("outcomes", held);
    button.disabled = true;
    const found = await send(form.action, data);
    say(found.kind, found.message);
    if (found.ok) form.reset();
    refresh();
  });
  document.getElementById("said").append(button);
  button.focus();
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form[data-quiet]")) return;
  event.preventDefault();
  const button = event.submitter;
  if (button) button.disabled = true;
  const found = await send(form.action, new FormData(form, button));
  if (button) button.disabled = false;
  say(found.kind, found.message);
  if (found.held) askAbout(form, found.held);
  if (found.ok && (form.id === "upload" || "reset" in form.dataset)) form.reset();
  refresh();
});

readyRuns(refresh);
follow();
