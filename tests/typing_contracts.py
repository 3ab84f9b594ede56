"""Who keeps which contract, for mypy alone: nothing imports this. `make types` fails where one is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.channels.thread import ThreadChannel
    from disco_magic.core.interfaces import Channel, Launcher, Plane
    from disco_magic.core.messages import Message
    from disco_magic.core.place import Place
    from disco_magic.core.topology import Topology
    from disco_magic.devices.gpu import GpuPlace
    from disco_magic.functions.calling import Guard
    from disco_magic.functions.execution.running import CellScope
    from disco_magic.functions.places import HOST_PLACE
    from disco_magic.launchers.threads import ThreadLauncher
    from disco_magic.notebook.output.scope import NotebookScope
    from disco_magic.planes.device import DevicePlane
    from disco_magic.planes.device_memory import DeviceMemory
    from disco_magic.planes.memory import HOST, Memory
    from disco_magic.planes.nccl import NcclPlane
    from disco_magic.planes.threads import ThreadPlane
    from disco_magic.testing import check_channel, check_launcher, check_plane
    from disco_magic.testing.stage import Run
    from disco_magic.workers.worker import Worker
    from tests.doubles.scripted import ScriptedChannel, ScriptedLauncher

    # --- the joints of a session -------------------------------------------------------------------

    plane: Plane = ThreadPlane(2)
    channel: Channel = ThreadChannel()
    launcher: Launcher = ThreadLauncher(Topology(2), plane, session_id=1)

    def device_plane(made: DevicePlane) -> Plane:
        return made

    def nccl_plane(made: NcclPlane) -> Plane:
        return made

    place: Place = HOST_PLACE

    def gpu_place(made: GpuPlace) -> Place:
        return made

    memory: Memory = HOST

    def device_memory(made: DeviceMemory) -> Memory:
        return made

    # --- the doubles stand in for them -------------------------------------------------------------

    scripted_channel: Channel = ScriptedChannel()
    scripted_launcher: Launcher = ScriptedLauncher(2)

    # --- between the layers ------------------------------------------------------------------------

    def guard(worker: Worker) -> Guard:
        return worker.guard

    def scope(cell: NotebookScope) -> CellScope:
        return cell

    # --- the checks take what we have --------------------------------------------------------------

    def thread_channel() -> tuple[ThreadChannel, Callable[[], Message]]:
        made = ThreadChannel()
        return made, made.receive

    def thread_launcher(size: int) -> ThreadLauncher:
        return ThreadLauncher(Topology(size), ThreadPlane(size), session_id=1)

    def checks(run: Run) -> None:
        check_channel(thread_channel)
        check_launcher(thread_launcher)
        check_plane(ThreadPlane, run)
