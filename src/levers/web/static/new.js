// The form of a new study: rows that come and go, and the plan that follows what is typed.
const form = document.getElementById("new-form");
const rows = document.getElementById("factor-rows");
const plan = document.getElementById("plan");
const empty = document.getElementById("empty-row");

function ready(row) {
  const remove = row.querySelector(".remove-row");
  remove.hidden = false;
  remove.addEventListener("click", () => {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    if (next) { row.remove(); next.querySelector("input").focus(); } else row.querySelectorAll("input").forEach((input) => { input.value = ""; });
    soon();
  });
}

const add = document.getElementById("add-row");
add.hidden = false;
document.getElementById("more-rows").hidden = true;
document.getElementById("show-plan").hidden = true;
add.addEventListener("click", () => {
  rows.append(empty.content.cloneNode(true));
  ready(rows.lastElementChild);
  rows.lastElementChild.querySelector("input").focus();
});
for (const row of rows.children) ready(row);

// where a question is answered by one of two, what somebody types in is the answer; the server relies on that
document.getElementById("scripted").value = "1";
for (const pick of form.querySelectorAll("input[id^=pick-]")) {
  document.getElementById(pick.value).addEventListener("input", (event) => { if (event.target.value) pick.checked = true; });
}

// Enter in a row goes on to the next field, as in a spreadsheet; it does not begin a study by accident
form.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing || !(event.target instanceof HTMLInputElement)) return;
  if (event.target.type === "radio" || event.target.type === "file") return;
  event.preventDefault();
  const fields = [...form.querySelectorAll("input:not([type=hidden]), textarea, select, #create")].filter((field) => field.offsetParent);
  fields[fields.indexOf(event.target) + 1]?.focus();
});

let timer, newest = 0;
function soon() { clearTimeout(timer); timer = setTimeout(update, 300); }
async function update() {
  const mine = ++newest;
  plan.setAttribute("aria-busy", "true");
  try {
    for (const more of [false, true]) { // the plan first; what each assumption buys takes longer
      const answer = await fetch(`${form.dataset.plan}?with_buys=${more}`, { method: "POST", body: new FormData(form) });
      const text = await answer.text();
      if (mine !== newest) return;
      if (answer.ok) plan.innerHTML = text;
      if (!plan.querySelector("#plan-buys-waiting")) break;
    }
  } catch { /* the next change tries again */ }
  if (mine === newest) plan.removeAttribute("aria-busy");
}
form.addEventListener("input", soon);
form.addEventListener("change", soon);
