// Who we are to the daemon. A token is typed in once; from then on a cookie shows it, which no script can read.

import { byId } from "./dom.js";

const ANSWER_MS = 10_000;
/** Anything else does not fit into a header. */
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;
const ENCODING = "ykactor.v1.json";

/** Ask the daemon who we are, and the user for a token if it needs one. Raises an Error when there is no answer. */
export async function openSession() {
    let question = "The daemon asks who you are.";
    for (;;) {
        const answer = await send("/ws/v1/session");
        if (answer.ok) return checked(await answer.json());
        if (answer.status !== 401) throw new Error(await messageOf(answer));
        await logIn(question);
        question = "This browser has not kept the cookie of the login.";
    }
}

/** End the login: the daemon then closes the websockets that it has opened. */
export const logOut = () => send("/ws/v1/logout", { method: "POST" });

/** Ask for tokens until one is accepted. */
async function logIn(question) {
    for (;;) {
        const token = await askForToken(question);
        const reason = TOKEN.test(token) ? await refusalOf(token) : "it has characters that no token has";
        if (!reason) return;
        question = `This token is not accepted: ${reason}`;
    }
}

async function refusalOf(token) {
    const answer = await send("/ws/v1/login", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
    return answer.ok ? "" : messageOf(answer);
}

const send = (path, options) => fetch(path, { ...options, signal: AbortSignal.timeout(ANSWER_MS) });

/** The answer of the daemon to a GET: its status, and its text. */
export async function textOf(path) {
    const answer = await send(path);
    return { status: answer.status, text: await answer.text() };
}

function checked(found) {
    if (!found.websockets) throw new Error("the daemon has no websocket that a browser can reach: start it with --ws HOST:PORT");
    byId("logout").hidden = !found.isLoggedIn;
    return { ...found, isOperator: found.roles.includes("operator") };
}

async function messageOf(answer) {
    try {
        return (await answer.json()).message;
    } catch {
        return `the daemon answers ${answer.status}`;
    }
}

/** Open a websocket of the daemon: `/v1/feed` or `/v1/operator`. The browser sends the cookie. */
export const openSocket = (session, path) => new WebSocket(session.websockets + path, [ENCODING]);

/** Show the field for the token until the user has sent one. */
async function askForToken(question) {
    const form = byId("login");
    byId("login-message").textContent = question;
    byId("logout").hidden = true;
    form.hidden = false;
    byId("token").focus();
    const token = await new Promise((resolve) => {
        form.onsubmit = (event) => {
            event.preventDefault();
            resolve(byId("token").value.trim());
            byId("token").value = "";
        };
    });
    form.hidden = true;
    return token;
}
