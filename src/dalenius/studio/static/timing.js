// How long a change takes until its answer is on the screen, as User Timing entries.
//
// "change-to-redraw": from the input event to after the frame that shows its answer.
// "overtaken-to-redraw": the same for a change that a newer one overtook before it could be sent; both are answered at
// once.
// "answer-to-redraw": the page's own part of it.

const KEPT = 5000;
let made = 0;

/** Mark a change at the time of its event. */
export function changed(event) {
  const startTime = event?.timeStamp > 0 ? event.timeStamp : performance.now();
  return performance.mark("change", { startTime });
}

/** The answer to these changes, oldest first, is in the document: measure once the frame with it was painted. */
export function redrawn(marks, arrived) {
  if (marks.length === 0) return;
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      const end = performance.now();
      performance.measure("answer-to-redraw", { start: arrived, end });
      marks.forEach((mark, at) => {
        const name = at === marks.length - 1 ? "change-to-redraw" : "overtaken-to-redraw";
        performance.measure(name, { start: mark.startTime, end });
      });
      made += marks.length;
      if (made > KEPT) forget();
    };
    port2.postMessage(null);
  });
}

function forget() {
  performance.clearMarks("change");
  performance.clearMeasures();
  made = 0;
}
