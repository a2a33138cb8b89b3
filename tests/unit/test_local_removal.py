"""The deletion of what jobs have written, where it takes for ever."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from ykactor.local import removal
from ykactor.local.removal import Removal


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that never ends instead of ours; it says when it was started."""
    program, started = tmp_path / "program.py", tmp_path / "started"
    program.write_text(f"import signal; open({str(started)!r}, 'a').write('!'); signal.pause()")
    monkeypatch.setattr(removal, "remover", SimpleNamespace(__file__=str(program)))
    return started


async def test_a_program_that_hangs_is_killed(hanging: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one is started for what is left."""
    monkeypatch.setattr(removal, "LIMIT_S", 0.0)
    removing = Removal()
    for _ in range(2):
        await removing.delete([], None)
    assert removing._hanging == {}


async def test_a_program_that_cannot_be_killed_is_the_last_one_of_its_user(
    tmp_path: Path, hanging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program waits for a file system without answers; others start for other users, and for this one at its end."""
    killed: list[int] = []
    for name in ("LIMIT_S", "KILLED_S"):
        monkeypatch.setattr(removal, name, 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(removal.subprocess.Popen, "kill", lambda process: killed.append(process.pid))
        removing = Removal()
        for uid in (None, None, 0):
            await removing.delete([], uid)
        assert len(set(killed)) == 2
    for process in removing._hanging.values():
        process.kill()
        process.wait()
    monkeypatch.undo()
    (tmp_path / "a/b").mkdir(parents=True)
    await removing.delete([tmp_path / "a"], None)
    assert not await trio.Path(tmp_path / "a").exists()
