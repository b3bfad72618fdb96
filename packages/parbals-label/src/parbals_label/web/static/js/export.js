// Taking the labels home.

import { download } from "./api.js";
import { h, toast } from "./dom.js";
import { state } from "./state.js";

const FORMATS = [
  ["csv", "CSV", "For spreadsheets and most tools. Cells that would run as formulas are made harmless."],
  ["jsonl", "JSON lines", "One object a line, for programs."],
  ["parquet", "Parquet", "Compact and typed, for data frames."],
];

export function exportView() {
  const choices = FORMATS.map(([value, name, what], i) =>
    h(
      "label",
      { class: "choice" },
      h("input", { type: "radio", name: "format", value, checked: i === 0 }),
      h("span", {}, h("strong", {}, name), h("span", { class: "quiet" }, what)),
    ),
  );
  const only = h("input", { type: "checkbox", id: "labelled-only", checked: true });
  const button = h("button", { class: "primary", type: "submit" }, "Download");
  const said = h("p", { class: "quiet", role: "status" });
  const far = h("progress", { class: "far", "aria-label": "The export", hidden: true });
  const model = h(
    "p",
    { class: "quiet" },
    "The model itself, to predict new items elsewhere, comes from the command line: ",
    h("code", {}, `parbals export ${state.project.name} --model model.npz`),
  );
  const form = h(
    "form",
    { class: "panel stack" },
    h("fieldset", { class: "choices" }, h("legend", {}, "Format"), choices),
    h("label", { class: "check", for: "labelled-only" }, only, h("span", {}, "Only items that have a label")),
    h("div", { class: "actions" }, button),
    far,
    said,
    model,
  );

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const format = new FormData(form).get("format");
    button.disabled = true;
    far.hidden = false;
    far.removeAttribute("value"); // moving, until it is known how much there is
    said.textContent = "The file is being made. A million items take some minutes; you can go on labelling meanwhile.";
    const address = `/api/export?format=${format}&labelled_only=${only.checked}`;
    try {
      const file = await download(address, `labels.${format}`, (bytes, all) => {
        if (all) far.value = bytes / all;
      });
      const kept = URL.createObjectURL(file.blob);
      h("a", { href: kept, download: file.name }).click();
      setTimeout(() => URL.revokeObjectURL(kept), 60_000);
      said.textContent = `${file.name} is in your downloads.`;
    } catch (error) {
      said.textContent = error.message;
      toast(error.message);
    }
    far.hidden = true;
    button.disabled = false;
  });
  const intro = h(
    "p",
    { class: "lead" },
    "Every item with its label, who gave it, and what the model predicts. The file is made from what is on disk at this moment.",
  );
  return { node: h("div", {}, intro, form) };
}
