// Figures that are shown, as a CSV file to download. It is made here: the server has nothing more to say.

const cell = (value) => (/[",\n\r]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
const addresses = new WeakMap();

/** Offer lines, the head first, as the file of this link. */
export function offerLines(link, lines) {
  const text = lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");
  URL.revokeObjectURL(addresses.get(link) ?? "");
  addresses.set(link, URL.createObjectURL(new Blob([text], { type: "text/csv" })));
  link.href = addresses.get(link);
  link.hidden = false;
}
