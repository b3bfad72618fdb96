// Download the labels as a file.

import { download } from "./api.js";
import { h, toast } from "./dom.js";
import { state } from "./state.js";
import { t } from "./text.js";

const FORMATS = [
  ["csv", "CSV", t("For spreadsheets and most tools. Cells that a spreadsheet would run as formulas are escaped.")],
  ["jsonl", "JSON lines", t("One object per line, for programs.")],
  ["parquet", "Parquet", t("Compact and typed, for data frames.")],
];

export function exportView() {
  const choices = FORMATS.map(([value, name, description], i) =>
    h(
      "label",
      { class: "choice" },
      h("input", { type: "radio", name: "format", value, checked: i === 0 }),
      h("span", {}, h("strong", {}, name), h("span", { class: "quiet" }, description)),
    ),
  );
  const labelledOnly = h("input", { type: "checkbox", id: "labelled-only", checked: true });
  const button = h("button", { class: "primary", type: "submit" }, t("Download"));
  const status = h("p", { class: "quiet", role: "status" });
  const progress = h("progress", { class: "far", "aria-label": t("Export progress"), hidden: true });
  const model = h(
    "p",
    { class: "quiet" },
    t("To export the model and predict new items elsewhere, use the command line:"),
    " ",
    h("code", {}, `parbals export ${state.project.name} --model model.npz`),
  );
  const form = h(
    "form",
    { class: "panel stack" },
    h("fieldset", { class: "choices" }, h("legend", {}, t("Format")), choices),
    h("label", { class: "check", for: "labelled-only" }, labelledOnly, h("span", {}, t("Only labelled items"))),
    h("div", { class: "actions" }, button),
    progress,
    status,
    model,
  );

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const format = new FormData(form).get("format");
    button.disabled = true;
    progress.hidden = false;
    progress.removeAttribute("value"); // indeterminate until the size is known
    status.textContent = t("Preparing the file. A million items take a few minutes; you can continue labelling meanwhile.");
    const address = `/api/export?format=${format}&labelled_only=${labelledOnly.checked}`;
    try {
      const file = await download(address, `labels.${format}`, (bytes, total) => {
        if (total) progress.value = bytes / total;
      });
      const objectUrl = URL.createObjectURL(file.blob);
      h("a", { href: objectUrl, download: file.name }).click();
      setTimeout(() => URL.revokeObjectURL(objectUrl), 60_000);
      status.textContent = t("{file} is in your downloads.", { file: file.name });
    } catch (error) {
      status.textContent = error.message;
      toast(error.message);
    }
    progress.hidden = true;
    button.disabled = false;
  });
  const intro = h(
    "p",
    { class: "lead" },
    t("Each item with its label, its annotators and the model's prediction. The file contains everything stored so far."),
  );
  return { node: h("div", {}, intro, form) };
}
