// What an operator does: a request over a connection of its own, which ends with the answer.

import { openSocket } from "./session.js";

const ANSWER_MS = 60_000;

/** Send a request; returns its Ack when its effect is durable. Raises an Error that says why it was refused. */
export function act(session, request) {
    return new Promise((resolve, reject) => {
        const socket = openSocket(session, "/v1/operator");
        const id = crypto.getRandomValues(new Uint32Array(2)).join("-");
        const end = (finish, value) => {
            clearTimeout(deadline);
            socket.onclose = null;
            socket.close();
            finish(value);
        };
        const late = "no answer came: the events tell whether it was done";
        const deadline = setTimeout(() => end(reject, new Error(late)), ANSWER_MS);
        socket.onopen = () => socket.send(JSON.stringify({ ...request, id }));
        socket.onclose = (event) => end(reject, new Error(event.reason || "the connection has ended before the answer"));
        socket.onmessage = (event) => {
            const answer = JSON.parse(event.data);
            if (answer.id !== id) return;
            if (answer.type === "Ack") end(resolve, answer);
            else end(reject, new Error(answer.message));
        };
    });
}
