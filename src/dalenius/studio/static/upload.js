// Files dropped on the page, or chosen, go to the server.

import { upload } from "./api.js";
import { byId, say } from "./dom.js";
import { bytes } from "./format.js";

/** `sent(id)` when a file has arrived, `failed(error)` when it has not; files above `most` bytes are not begun. */
export function acceptFiles(most, sent, failed) {
  const zone = byId("drop");
  let inside = 0; // dragenter and dragleave also come from the zone's children
  const over = (by) => {
    inside = Math.max(0, inside + by);
    zone.classList.toggle("over", inside > 0);
  };
  zone.addEventListener("dragenter", (event) => {
    event.preventDefault();
    over(1);
  });
  zone.addEventListener("dragleave", () => over(-1));
  for (const target of [zone, document]) target.addEventListener("dragover", (event) => event.preventDefault());
  // A near miss must not open the file in the place of the page.
  document.addEventListener("drop", (event) => event.preventDefault());
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    inside = 0;
    over(0);
    if (event.dataTransfer.files.length > 0) send(event.dataTransfer.files[0]);
  });
  byId("file").addEventListener("change", chosen);
  chosen(); // it may have been before this script came

  function chosen() {
    const [file] = byId("file").files;
    byId("file").value = "";
    if (file) send(file);
  }

  async function send(file) {
    if (file.size > most) {
      return failed({
        kind: "too-large",
        message: `The file has ${bytes(file.size)}, and ${bytes(most)} can be dropped in.`,
        hint: "Start Studio with it instead: dalenius studio TABLE.",
      });
    }
    const box = byId("upload-progress");
    box.hidden = false;
    try {
      const { id } = await upload(file, (done, total) => {
        box.querySelector("progress").value = total ? done / total : 0;
        say(byId("upload-text"), `${bytes(done)} of ${bytes(total)}`);
      });
      sent(id);
    } catch (error) {
      failed(error);
    } finally {
      box.hidden = true;
    }
  }
}
