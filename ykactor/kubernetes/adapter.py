"""The adapter: reflectors, the state, the effects and the session with the daemon, brought together.

What arrives while the state is busy is handled together, so that much becomes few requests. Every replica keeps its watches warm;
only the one that leads tells the daemon and the API server anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress

import trio
from msgspec import Struct

from ykactor.client import KeptSession, RequestRefused, SessionReplaced, keep_registered
from ykactor.client.login import LoginOptions
from ykactor.kubernetes.api import Api
from ykactor.kubernetes.effects import Counts, Effects, Feedback
from ykactor.kubernetes.hearing import complaint_about
from ykactor.kubernetes.lanes import Pace
from ykactor.kubernetes.leader import PAUSE_S, Leader, Leadership, LeaseName, lead_alone
from ykactor.kubernetes.messages import Effect, Heard, Kind, Listed, Stimulus, Tell
from ykactor.kubernetes.process import Outages, Process
from ykactor.kubernetes.reflector import SILENCE_S, WATCH_S, Reflector, Source, find_version
from ykactor.kubernetes.state import State

#: The state is asked at least so often, so that what is idle is forgotten.
TICK_S = 30.0
#: A watch that has shown no sign of life for so long does not work.
WATCH_LOST_S = 1.2 * WATCH_S + SILENCE_S + 10
#: The daemon does not let this process in any more.
_NOT_LET_IN = (SessionReplaced, RequestRefused)

#: A kind that the server does not have is looked for again after this time.
LOOK_AGAIN_S = 300.0
#: Kinds that servers have in different versions, or not at all: their group.
VERSIONED = {Kind.BUDGETS: "policy", Kind.POD_GROUPS: "scheduling.k8s.io", Kind.CAPACITIES: "storage.k8s.io"}


class Settings(Struct, frozen=True):
    """Settings of the adapter.

    Attributes:
        url, login: of the daemon.
        rm_id: the id of this resource manager.
        scheduler_name: the pods with this name are placed by the daemon.
        namespace: of the ConfigMaps.
        lease: None: this process always leads, with epoch 0.
        qps: requests per second to the API server, unless a ConfigMap says another number.
    """

    url: str
    login: LoginOptions
    rm_id: str
    scheduler_name: str
    namespace: str
    lease: LeaseName | None
    qps: int


class Adapter:
    """One replica of the adapter.

    Attributes:
        state: what it knows; read by metrics.
        effects: of the present leadership; None if this replica does not lead.
        counts: of all its leaderships.
        turns: how often the state has taken what has arrived.
    """

    def __init__(self, api: Api, settings: Settings, process: Process) -> None:
        self._api = api
        self._settings = settings
        self._process = process
        self._outages = Outages(process.warn)
        self._arrived: list[Stimulus] = []
        self._is_there = trio.Event()
        self._is_listed = trio.Event()
        self._session: KeptSession | None = None
        #: The daemon does not let this process lead, and this one does not try to lead before this time.
        self._replaced_until_s = -math.inf
        self._pace = Pace(settings.qps)
        self.state = State(settings.scheduler_name)
        self.reflectors = [self._reflector(source) for source in sources(settings.namespace)]
        (self._pods,) = (each for each in self.reflectors if each.kind is Kind.PODS)
        #: Of the kinds that have one; "" for one that the server does not have.
        self._versions = dict.fromkeys(VERSIONED, "")
        self.effects: Effects | None = None
        self.counts = Counts()
        self.turns = 0

    async def run(self) -> None:
        """Run until cancelled.

        Raises:
            SessionReplaced, RequestRefused: without a Lease, when the daemon does not let this process in any more.
        """
        async with trio.open_nursery() as nursery:
            for reflector in self.reflectors:
                nursery.start_soon(reflector.run)
            for kind in VERSIONED:
                nursery.start_soon(self._follow, kind)
            nursery.start_soon(self._handle_all)
            lease = self._settings.lease
            if lease is None:
                await lead_alone(self._serve)
            else:
                await Leader(self._api, lease, self._process, self._outages).run(self._lead)

    async def _follow(self, kind: Kind) -> None:
        """Watch a kind in the newest version that the server has, and look again while and when it has none."""
        while True:
            version = self._versions[kind] = await find_version(self._api, VERSIONED[kind], kind, self._outages)
            if not version:
                self._arrive(Listed(kind, []))
                await trio.sleep(LOOK_AGAIN_S)
                continue
            reflector = self._reflector(Source(kind, f"/apis/{version}/{kind}", may_go=True))
            self.reflectors.append(reflector)
            await reflector.run()
            self.reflectors.remove(reflector)

    def _reflector(self, source: Source) -> Reflector:
        return Reflector(self._api, source, self._arrive, self._process, self._outages)

    async def _lead(self, leadership: Leadership) -> None:
        """Lead until the Lease is lost, or another process has taken the place of this one at the daemon: it is never fought."""
        try:
            await self._serve(leadership)
        except _NOT_LET_IN as error:
            self._process.warn(f"the daemon does not let this process lead: {error}")
            self._replaced_until_s = trio.current_time() + PAUSE_S

    async def _serve(self, leadership: Leadership) -> None:
        await self._is_listed.wait()  # the registration brings the configuration
        await self._pods.refresh()  # what the leader before has bound last, so that nothing is placed in its room
        feedback = Feedback(self._arrive, self.state.wants, self.counts)
        effects = Effects(self._api, self._pace, self._process, feedback, self._pod_groups)
        failure: Exception | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(effects.run, leadership)
                try:
                    await self._hear(leadership.epoch, effects)
                except _NOT_LET_IN as error:
                    failure = error  # raised below, outside the group of the nursery
                nursery.cancel_scope.cancel()
        finally:
            self._arrived = [each for each in self._arrived if not isinstance(each, Heard)]
            self.state.stop()
        if failure is not None:
            raise failure

    def _pod_groups(self) -> str:
        """The path of PodGroups up to their version."""
        return f"/apis/{self._versions[Kind.POD_GROUPS]}"

    async def _hear(self, epoch: int, effects: Effects) -> None:
        """Stay registered with the daemon, and take its messages, until cancelled."""
        settings = self._settings
        async with keep_registered(
            settings.url,
            rm_id=settings.rm_id,
            answers_predicates=True,
            wants_scheduling_states=True,
            epoch=epoch,
            config=self.state.book.configuration.begin_registration,
            rng=self._process.rng,
            on_connection=self._process.say,
            **settings.login,
        ) as session:
            self._session, self.effects = session, effects
            try:
                async for message in session:
                    complaint = complaint_about(message)
                    if complaint:
                        self._process.warn(complaint)
                    self._arrive(Heard(message))
            finally:
                self._session = self.effects = None

    # ---- input and output of the state

    def _arrive(self, stimulus: Stimulus) -> None:
        self._arrived.append(stimulus)
        self._is_there.set()

    async def _handle_all(self) -> None:
        while True:
            with trio.move_on_after(TICK_S):
                await self._is_there.wait()
            self._is_there = trio.Event()
            arrived, self._arrived = self._arrived, []
            if arrived:
                self._pace.note_input()
            self.turns += 1
            for effect in self.state.handle(arrived, trio.current_time()):
                self._carry_out(effect)
            self._pace.per_second = self.state.book.configuration.qps or self._settings.qps
            if self.state.is_listed:
                self._is_listed.set()
            await trio.lowlevel.checkpoint()

    def _carry_out(self, effect: Effect) -> None:
        """A replica that does not lead does nothing."""
        if self._session is None or self.effects is None:
            return
        if isinstance(effect, Tell):
            with suppress(*_NOT_LET_IN):  # what has ended the session is handled where it is read
                self._session.send(effect.request)
        else:
            self.effects.put(effect)

    # ---- how it is

    @property
    def is_idle(self) -> bool:
        """True if nothing has arrived that the state has not taken."""
        return not self._arrived

    def problems(self) -> Iterator[str]:
        """Sentences that say why it is not ready; none if it leads or waits, and sees what happens."""
        now_s = trio.current_time()
        if now_s < self._replaced_until_s:
            yield "the daemon does not let this process lead"
        if not self.state.is_listed:
            yield "not everything is listed yet"
        for reflector in self.reflectors:
            if reflector.alive_s is None:
                yield f"{reflector.kind} are not listed yet"
            elif now_s - reflector.alive_s > WATCH_LOST_S:
                yield f"the watch of {reflector.kind} has shown no sign of life for {now_s - reflector.alive_s:.0f} s"


#: The paths of the kinds that every server has; ConfigMaps in the namespace of the adapter only.
_PATHS = {
    Kind.NAMESPACES: "/api/v1",
    Kind.CONFIG_MAPS: "/api/v1/namespaces/{}",
    Kind.PRIORITY_CLASSES: "/apis/scheduling.k8s.io/v1",
    Kind.NODES: "/api/v1",
    Kind.STORAGE_CLASSES: "/apis/storage.k8s.io/v1",
    Kind.CSI_DRIVERS: "/apis/storage.k8s.io/v1",
    Kind.CSI_NODES: "/apis/storage.k8s.io/v1",
    Kind.VOLUMES: "/api/v1",
    Kind.CLAIMS: "/api/v1",
    Kind.PODS: "/api/v1",
}


def sources(namespace: str) -> list[Source]:
    """The kinds that every server has, with ConfigMaps of this namespace."""
    return [Source(kind, f"{path.format(namespace)}/{kind}") for kind, path in _PATHS.items()]
