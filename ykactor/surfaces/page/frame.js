// Drawing once in a frame, however many events have come since the last one.

const waiting = new Set();

/** Call `draw` in the next frame; several calls before it are one. */
export function onNextFrame(draw) {
    if (waiting.size === 0) requestAnimationFrame(run);
    waiting.add(draw);
}

function run() {
    const draws = [...waiting];
    waiting.clear();
    for (const draw of draws) draw();
}
