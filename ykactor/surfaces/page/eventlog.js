// The last events, and among them the preemptions.

/** Older events are forgotten. */
export const EVENTS_MAX = 5000;
const PREEMPTIONS_MAX = 1000;
/** Of queues above their maximum: what they give back, and why they give back nothing more. */
const OF_QUEUES = new Set(["QUEUE_PREEMPTION", "QUEUE_ABOVE_MAX"]);

export class EventLog {
    /** The oldest first. */
    events = [];
    preemptions = [];
    /** The last one about the configuration. */
    configuration = null;
    /** How many there have been. */
    count = 0;

    add(event) {
        this.events.push(event);
        this.count += 1;
        if (this.events.length > 1.2 * EVENTS_MAX) this.events = this.events.slice(-EVENTS_MAX);
        if (event.eventChangeDetail === "QUEUE_CONFIG") this.configuration = event;
        if (!event.preemption && !OF_QUEUES.has(event.eventChangeDetail)) return;
        this.preemptions.push(event);
        if (this.preemptions.length > PREEMPTIONS_MAX) this.preemptions.shift();
    }

    /** These events were lost on the way. */
    addGap(from, to) {
        this.add({ sequence: to, type: "MISSING", objectID: "", message: `the events ${from} to ${to} are missing` });
    }
}
