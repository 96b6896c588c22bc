"""Debian's Slurm on one machine: a controller and some daemons with fake cards, for tests to talk to.

Needs the packages slurm-wlm and munge (``apt install slurm-wlm munge``), and root for device nodes and
munged.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NEEDED = ("slurmctld", "slurmd", "scontrol", "sbatch", "srun", "munged")
START_SECONDS = 30.0


def why_not() -> str:
    """Why Slurm cannot be started here, or nothing."""
    missing = [name for name in NEEDED if not (shutil.which(name) or Path("/usr/sbin", name).exists())]
    if missing:
        return f"{', '.join(missing)} not installed: apt install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "needs root, to make device nodes and start munged"


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Slurm:
    """A running Slurm in `folder`: machines ``n1`` .. ``nN`` of `cards` fake cards each.

    `topology` is the text of topology.conf, empty for none; a machine has `memory_mib` and a core a card.
    Use as a context manager; `environment` is what a command needs to find this Slurm.
    """

    folder: Path
    nodes: int = 2
    cards: int = 8
    topology: str = ""
    memory_mib: int = 100
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Slurm:
        try:
            self._write()
            self._munge()
            self._start("slurmctld", "-D", "-i")
            for name in self.names:
                self._start("slurmd", "-D", "-N", name)
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def names(self) -> list[str]:
        """Names of the machines."""
        return [f"n{i}" for i in range(1, self.nodes + 1)]

    @property
    def environment(self) -> dict[str, str]:
        """Environment of commands that talk to this Slurm."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *words: str, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """A command of this Slurm, its output as text."""
        return subprocess.run(
            words, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=seconds
        )

    def _write(self) -> None:
        devices = self.folder / "dev"
        devices.mkdir()
        for index in range(self.cards):
            os.mknod(devices / f"gpu{index}", 0o020666, os.makedev(1, 3))
        for name in ("state", "log", *(f"spool/{name}" for name in self.names)):
            (self.folder / name).mkdir(parents=True)
        gres = f"Name=gpu Type=h100 File={devices}/gpu[0-{self.cards - 1}]\n"
        (self.folder / "gres.conf").write_text("".join(f"NodeName={n} {gres}" for n in self.names))
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        if self.topology:
            (self.folder / "topology.conf").write_text(self.topology)
        (self.folder / "slurm.conf").write_text("\n".join(self._configuration()) + "\n")

    def _configuration(self) -> Sequence[str]:
        here, host = self.folder, socket.gethostname().split(".")[0]
        ports = [_port() for _ in self.names]
        return [
            "ClusterName=test",
            f"SlurmctldHost={host}(127.0.0.1)",
            f"SlurmctldPort={_port()}",
            "SlurmUser=root",
            f"StateSaveLocation={here}/state",
            f"SlurmdSpoolDir={here}/spool/%n",
            f"SlurmctldPidFile={here}/ctld.pid",
            f"SlurmdPidFile={here}/%n.pid",
            f"SlurmctldLogFile={here}/log/ctld.log",
            f"SlurmdLogFile={here}/log/%n.log",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core",
            "GresTypes=gpu",
            "SlurmdParameters=config_overrides",
            "MpiDefault=none",
            "ReturnToService=2",
            "AuthType=auth/munge",
            f"AuthInfo=socket={here}/munge.socket",
            *(["TopologyPlugin=topology/tree"] if self.topology else []),
            *(
                f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={self.cards} "
                f"Sockets=1 CoresPerSocket={self.cards} ThreadsPerCore=1 RealMemory={self.memory_mib} "
                f"Gres=gpu:h100:{self.cards}"
                for name, port in zip(self.names, ports, strict=True)
            ),
            f"PartitionName=all Nodes={','.join(self.names)} Default=YES MaxTime=INFINITE State=UP",
        ]

    def _munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        places = {
            "socket": "munge.socket",
            "pid-file": "munge.pid",
            "log-file": "munge.log",
            "seed-file": "munge.seed",
        }
        options = [f"--{option}={self.folder / name}" for option, name in places.items()]
        self._start("munged", "--foreground", "--force", f"--key-file={key}", *options)
        self.until(lambda: (self.folder / "munge.socket").exists(), "munged")

    def _start(self, program: str, *options: str) -> None:
        path = shutil.which(program) or f"/usr/sbin/{program}"
        with (self.folder / "log" / f"{program}{len(self._running)}.out").open("wb") as log:
            self._running.append(
                subprocess.Popen(
                    [path, *options], env=self.environment, cwd=self.folder, stdout=log, stderr=log
                )
            )

    def _wait(self) -> None:
        def idle() -> bool:
            states = self.run("sinfo", "-h", "-N", "-o", "%T").stdout.split()
            return len(states) == self.nodes and all(state == "idle" for state in states)

        self.until(idle, "all machines idle")

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Waits for `done`; raises TimeoutError with the ends of the logs."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if done():
                return
            time.sleep(0.2)
        logs = "\n".join(path.read_text(errors="replace")[-800:] for path in (self.folder / "log").iterdir())
        raise TimeoutError(f"{what}: not within {START_SECONDS:.0f} s\n{logs}")

    def _stop(self) -> None:
        for process in reversed(self._running):
            process.terminate()
        for process in reversed(self._running):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
