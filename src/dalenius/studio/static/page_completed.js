// Completed tables: drawn as a task, and offered as a ZIP file.

import { analysisPage, tookWords } from "./analysis.js";
import { byId, bytes, el, fill, named, plural, say, seconds } from "./dom.js";
import { announce } from "./shell.js";

const FORMATS = { parquet: "Parquet", csv: "CSV", dta: "Stata", sav: "SPSS" };
const NOTHING = byId("made").firstElementChild;
let about = null;

byId("format").addEventListener("change", showFormat);
analysisPage("completed", "Drawing completed tables", { show, question, answer });

function show(found) {
  about = found;
  const sensitive = [about.sensitive, ...about.others];
  byId("columns-choice").hidden = sensitive.length < 2;
  fill(
    byId("columns"),
    sensitive.map(({ name }) => {
      const reason = about.refused[name];
      return el(
        "label",
        { class: "check" },
        el("input", { type: "checkbox", value: name, checked: !reason, disabled: Boolean(reason), "data-test": "column" }),
        el("span", {}, named(name, 40), reason ? el("span", { class: "reason" }, `: ${reason.message}`) : null),
      );
    }),
  );
  showFormat();
  if (about.completed) offer(about.completed);
  else fill(byId("made"), NOTHING);
}

function showFormat() {
  const missing = about?.missing[byId("format").value];
  byId("format-hint").hidden = !missing;
  say(byId("format-hint"), missing ? `${missing.message}. ${missing.hint}` : "");
}

function question() {
  const columns = [...byId("columns").querySelectorAll("input:checked")].map((box) => box.value);
  return { columns, draws: Number(byId("draws").value), format: byId("format").value };
}

function answer(result) {
  offer(result, result);
  announce("The tables are drawn.");
}

function offer({ draws, format, bytes: size }, result = null) {
  fill(
    byId("made"),
    el("p", { "data-test": "made-words" }, el("strong", {}, `${plural(draws, "table")}, ${FORMATS[format]}, ${bytes(size)}.`), " They stay in Studio until it ends, or until others are drawn."),
    el(
      "p",
      {},
      el(
        "a",
        {
          class: "button",
          href: `/releases/${encodeURIComponent(byId("release").value)}/completed.zip`,
          download: true,
          "data-test": "download-completed",
        },
        "Download as ZIP",
      ),
    ),
    result ? el("p", { class: "hint" }, tookWords(result, seconds)) : null,
  );
}
