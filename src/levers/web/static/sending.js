// Forms sent without leaving the page. The server checks them like any other form, and answers in a few words.
const QUIET = { "x-levers-quiet": "1" };

export function say(kind, message) {
  const box = document.getElementById("said");
  box.dataset.kind = kind;
  box.replaceChildren(...message.split("\n").map((line) => Object.assign(document.createElement("p"), { textContent: line })));
  box.hidden = false;
  if (kind === "problem") box.scrollIntoView({ block: "nearest" });
}

export async function send(action, body) {
  try {
    const answer = await fetch(action, { method: "POST", body, headers: QUIET });
    const found = await answer.json();
    if (found.error) return { ok: false, kind: "problem", message: found.error.message };
    return { ok: answer.ok, ...found };
  } catch {
    return { ok: false, kind: "problem", message: "The service did not answer. What you typed is still here; try again." };
  }
}
