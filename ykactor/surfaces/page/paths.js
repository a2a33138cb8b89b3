// Paths of queues: `root.a.b`.

/** The path of a queue and of those above it. */
export function pathsOf(path) {
    const found = [];
    for (let end = path.length; end > 0; end = path.lastIndexOf(".", end - 1)) found.push(path.slice(0, end));
    return found;
}

/** The path of the queue above; "" of root. */
export const parentOf = (path) => path.slice(0, Math.max(0, path.lastIndexOf(".")));

/** The last part of the path. */
export const nameOf = (path) => path.slice(path.lastIndexOf(".") + 1);
