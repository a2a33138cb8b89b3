// Who we are to the daemon, and the token that shows it. It stays in this tab of the browser.

import { byId } from "./dom.js";

const KEY = "ykactor.token";
const ANSWER_MS = 10_000;
/** Anything else fits neither into a header nor into a subprotocol. */
const TOKEN = /^[\w!#$%&'*+.^`|~-]*$/;
const ENCODING = "ykactor.v1.json";

/** Ask the daemon who we are, and the user for a token if it needs one. Raises an Error when there is no answer. */
export async function openSession() {
    for (;;) {
        const token = sessionStorage.getItem(KEY) ?? "";
        if (!TOKEN.test(token)) {
            await askForToken("it has characters that no token has", token);
            continue;
        }
        const headers = token ? { Authorization: `Bearer ${token}` } : {};
        const answer = await fetch("/ws/v1/session", { headers, signal: AbortSignal.timeout(ANSWER_MS) });
        if (answer.ok) return checked(await answer.json(), token);
        const message = await messageOf(answer);
        if (answer.status !== 401 && !(answer.status === 403 && token)) throw new Error(message);
        await askForToken(message, token);
    }
}

function checked(found, token) {
    if (!found.websockets) throw new Error("the daemon has no websocket that a browser can reach: start it with --ws HOST:PORT");
    const subprotocols = token ? [ENCODING, `ykactor.bearer.${token}`] : [ENCODING];
    return { ...found, isOperator: found.roles.includes("operator"), subprotocols };
}

async function messageOf(answer) {
    try {
        return (await answer.json()).message;
    } catch {
        return `the daemon answers ${answer.status}`;
    }
}

/** Open a websocket of the daemon: `/v1/feed` or `/v1/operator`. */
export const openSocket = (session, path) => new WebSocket(session.websockets + path, session.subprotocols);

/** Show the field for the token until the user has sent one. */
async function askForToken(message, last) {
    const form = byId("login");
    byId("login-message").textContent = last ? `This token is not accepted: ${message}` : "The daemon asks who you are.";
    form.hidden = false;
    byId("token").focus();
    await new Promise((resolve) => {
        form.onsubmit = (event) => {
            event.preventDefault();
            sessionStorage.setItem(KEY, byId("token").value.trim());
            byId("token").value = "";
            resolve();
        };
    });
    form.hidden = true;
}
