"""Random histories of pods, nodes, gangs, rivals, faults, restarts and takeovers, with the real core as the daemon."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest
from seeds import seeds
from whole import Whole

#: The acts of users, with their weights.
Users = tuple[tuple[int, Callable[[Whole], None]], ...]
GROUPS = '[{"name": "g", "minMember": 3, "minResource": {"cpu": "1"}}]'


def plain(whole: Whole) -> None:
    whole.create(whole.name("p"), cpu=whole.rng.choice(("500m", "1", "2", "3")))


def urgent(whole: Whole) -> None:
    """A pod that preempts others."""
    annotations = {"yunikorn.apache.org/queue": "root.urgent", "yunikorn.apache.org/app-id": "urgent"}
    whole.create(whole.name("urgent"), cpu="2", annotations=annotations)


def with_port(whole: Whole) -> None:
    whole.create(whole.name("port"), cpu="500m", ports=[{"hostPort": whole.rng.choice((80, 81))}])


def pinned(whole: Whole) -> None:
    field = {"key": "metadata.name", "operator": "In", "values": [whole.rng.choice(("n1", "n2", "n3"))]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    whole.create(
        whole.name("ds"), cpu="500m", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    )


def gated(whole: Whole) -> None:
    whole.create(whole.name("gate"), schedulingGates=[{"name": "wait"}])


def gang(whole: Whole) -> None:
    """Three pods that start together."""
    name = whole.name("gang")
    style = whole.rng.choice(("Soft", "Hard"))
    annotations = {
        "yunikorn.apache.org/app-id": name,
        "yunikorn.apache.org/task-groups": GROUPS,
        "yunikorn.apache.org/task-group-name": "g",
        "yunikorn.apache.org/schedulingPolicyParameters": f"placeholderTimeoutInSeconds=120 gangSchedulingStyle={style}",
    }
    for number in range(3):
        whole.create(f"{name}-{number}", annotations=annotations)


def pod_group(whole: Whole) -> None:
    """Two pods that Kubernetes itself calls a gang, of which one may be missing."""
    name = whole.name("pg")
    whole.store.create("podgroups", "team", {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
    for number in range(whole.rng.choice((1, 2, 2, 3))):
        whole.create(f"{name}-{number}", schedulingGroup={"podGroupName": name})


def rival(whole: Whole) -> None:
    """Somebody else binds a pod that waits, where there is room."""
    waiting = [pod for pod in whole.store.all("pods", "team") if not pod["spec"].get("nodeName")]
    waiting = [pod for pod in waiting if not pod["spec"].get("schedulingGates") and not pod["metadata"].get("deletionTimestamp")]
    if waiting and not whole.waiting:
        used = Counter[str]()
        for pod in whole.pods():
            used[pod.spec.node_name] += 4000
        free = [body["metadata"]["name"] for body in whole.store.all("nodes", "") if not used[body["metadata"]["name"]]]
        if free:
            pod = whole.rng.choice(waiting)["metadata"]
            meta = {"name": pod["name"], "uid": pod["uid"]}
            whole.store.bind("team", pod["name"], {"metadata": meta, "target": {"name": whole.rng.choice(free)}})


def with_claim(whole: Whole) -> None:
    """A claim of its own, a shared one, one for one pod, an ephemeral one, or one whose volume is made at once; perhaps later."""
    kind, name = whole.rng.choice(("own", "own", "shared", "one-pod", "ephemeral", "now")), whole.name("vol")
    if kind == "ephemeral":
        whole.create(name, cpu="500m", volumes=[{"name": "v", "ephemeral": {}}])
        return
    claim = f"{kind}-{whole.rng.randrange(2)}" if kind in ("shared", "one-pod") else name
    if whole.rng.random() < 0.8:
        mode = "ReadWriteOncePod" if kind == "one-pod" else "ReadWriteMany"
        whole.try_claim(claim, storage_class="now" if kind == "now" else "wait", mode=mode)
    whole.create(name, cpu="500m", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])


def two_of_one_claim(whole: Whole) -> None:
    """Two pods that share a claim, which perhaps only one may use."""
    name = whole.name("pair")
    whole.try_claim(name, mode=whole.rng.choice(("ReadWriteOncePod", "ReadWriteMany")))
    for number in range(2):
        whole.create(f"{name}-{number}", cpu="500m", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])


def missing_claim(whole: Whole) -> None:
    """A claim comes after its pod."""
    for pod in whole.store.all("pods", "team"):
        for volume in pod["spec"].get("volumes", ()) if not pod["spec"].get("nodeName") else ():
            if "persistentVolumeClaim" in volume:
                whole.try_claim(volume["persistentVolumeClaim"]["claimName"])


def delete_claim(whole: Whole) -> None:
    claims = whole.store.all("persistentvolumeclaims", "team")
    if claims:
        whole.volumes.delete(whole.rng.choice(claims))


def volumes(whole: Whole) -> None:
    whole.volumes.look(faulty=True)


def delete(whole: Whole) -> None:
    pods = whole.store.all("pods", "team")
    if pods:
        whole.store.delete("pods", whole.rng.choice(pods), {})


def open_gates(whole: Whole) -> None:
    for pod in whole.store.all("pods", "team"):
        if pod["spec"].get("schedulingGates"):
            whole.store.patch("pods", pod, {"spec": {"schedulingGates": None}})
            return


def node(whole: Whole) -> None:
    name = whole.rng.choice(("n1", "n2", "n3"))
    found = whole.store.objects.get("nodes", {}).get(("", name))
    if found is None:
        whole.add_node(name)
    elif whole.rng.random() < 0.3:
        whole.store.remove("nodes", found)
    else:
        is_closed = found.get("spec", {}).get("unschedulable", False)
        whole.store.patch("nodes", found, {"spec": {"unschedulable": not is_closed}})


USERS: Users = (
    (8, plain), (3, with_port), (2, pinned), (1, gated), (1, gang), (1, pod_group), (3, delete), (1, open_gates), (2, node),
    (2, urgent), (3, with_claim), (1, missing_claim), (1, delete_claim), (2, volumes),
)  # fmt: skip
CLAIM_USERS: Users = (
    (2, plain), (1, pod_group), (6, with_claim), (6, two_of_one_claim), (3, missing_claim), (2, delete_claim), (12, volumes),
    (4, delete), (1, node),
)  # fmt: skip


def step(whole: Whole, rng: random.Random, users: Users = USERS) -> None:
    """Anything may happen next, and things on their way arrive in parts."""
    match rng.randint(0, 20):
        case 0 | 1 | 2 | 3 | 4:
            weights, acts = zip(*users, strict=True)
            rng.choices(acts, weights)[0](whole)
        case 5 | 6 | 7 | 8:
            whole.watch(rng.choice((1, 1, 3, 10)))
        case 9 | 10 | 11:
            whole.listen(rng.choice((1, 3, 10)))
        case 12 | 13 | 14 | 15:
            whole.carry_out(faulty=True)
        case 16 | 17:
            whole.report()
        case 18:
            whole.kubelets()
        case 19:
            whole.pass_time(rng.choice((0.1, 1, 5, 40)))
        case 20 if rng.random() < 0.2:
            rng.choice((whole.start_adapter, whole.lead_again))()
        case 20 if rng.random() < 0.1:
            whole.start_daemon()
            whole.register()


@pytest.mark.parametrize("seed", seeds(40))
def test_histories(seed: int) -> None:
    """Nothing impossible ever happens; when all has arrived, both sides know the same, and what fits runs."""
    assert played(seed, USERS).outcomes["bound"] > 0


@pytest.mark.parametrize("seed", seeds(40))
def test_histories_of_claims(seed: int) -> None:
    """Bound late, never or elsewhere, deleted in the middle, shared or for one pod, and volumes are limited."""
    played(seed, CLAIM_USERS)


def test_histories_bind_pods_with_claims() -> None:
    """Not in each of them."""
    assert sum(played(seed, CLAIM_USERS).outcomes["with a claim"] for seed in range(3)) > 3


@cache
def played(seed: int, users: Users) -> Whole:
    """A cluster after a random history, in which nothing more will happen."""
    whole = Whole(seed)
    for name in ("n1", "n2", "n3"):
        whole.add_node(name)
    for _ in range(250):
        step(whole, whole.rng, users)
        whole.check_always()
    whole.settle()
    whole.check_always()
    whole.check_quiet()
    return whole
