// Taking the labels home.

import { download } from "./api.js";
import { h, toast } from "./dom.js";

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
  const form = h(
    "form",
    { class: "panel stack" },
    h("fieldset", { class: "choices" }, h("legend", {}, "Format"), choices),
    h("label", { class: "check", for: "labelled-only" }, only, h("span", {}, "Only items that have a label")),
    h("div", { class: "actions" }, button),
    said,
  );

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const format = new FormData(form).get("format");
    button.disabled = true;
    said.textContent = "Being made …";
    try {
      const file = await download(`/api/export?format=${format}&labelled_only=${only.checked}`, `labels.${format}`);
      const address = URL.createObjectURL(file.blob);
      h("a", { href: address, download: file.name }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
      said.textContent = `${file.name} is in your downloads.`;
    } catch (error) {
      said.textContent = error.message;
      toast(error.message);
    }
    button.disabled = false;
  });
  const intro = h(
    "p",
    { class: "lead" },
    "Every item with its label, who gave it, and what the model predicts. The file is made from what is on disk at this moment.",
  );
  return { node: h("div", {}, intro, form) };
}
