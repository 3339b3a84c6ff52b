// Scenarios that a reader kept: names and tokens in this browser's storage alone, the last one first.

const PLACE = "inferscape.saved";
const MOST = 30;

function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(PLACE) ?? "[]");
    return found.filter((row) => typeof row?.name === "string" && typeof row?.token === "string");
  } catch {
    return []; // no storage, or not ours
  }
}

function button(text, label, done) {
  const made = document.createElement("button");
  made.textContent = text;
  made.setAttribute("aria-label", label);
  made.onclick = done;
  return made;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const list = parentElement.querySelector("ul");
  const save = parentElement.querySelector(".save");
  const write = (rows) => {
    try {
      localStorage.setItem(PLACE, JSON.stringify(rows.slice(0, MOST)));
    } catch {
      save.textContent = "This browser keeps nothing";
      return;
    }
    draw();
  };
  const row = ({ name, token }) => {
    const line = document.createElement("li");
    const open = button(name, `Open ${name}`, () => setTriggerValue("opened", token));
    const drop = button("Remove", `Remove ${name}`, () => write(kept().filter((one) => one.token !== token)));
    line.append(open, drop);
    return line;
  };
  const draw = () => {
    const rows = kept();
    save.disabled = rows.some((one) => one.token === data.token);
    save.textContent = save.disabled ? "Saved in this browser" : "Save in this browser";
    list.replaceChildren(...rows.map(row));
  };
  save.onclick = () => write([data, ...kept().filter((one) => one.token !== data.token)]);
  draw();
}
