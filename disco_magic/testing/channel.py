"""`check_channel`: what every implementation of `disco_magic.core.interfaces.Channel` has to do."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from disco_magic.core.messages import Call, Kill, Message, Run, Stop, Store, Sync, full
from disco_magic.errors import SessionClosed
from disco_magic.testing.stage import expect, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.core.interfaces import Channel

    Receive = Callable[[], Message]
    Make = Callable[[], tuple[Channel, Receive]]


def messages_arrive_whole_and_in_order(make: Make) -> None:
    """Commands come out equal and in the order sent; a bare call may come out as a `Call`."""
    channel, receive = make()
    sent: list[Message] = [
        Sync(1),
        Store(2, 1, {"a": [1, 2.5, None]}, (0,)),
        Call(3, 2, 1, (1, "text", b"bytes"), (0,), ("key",), (4, 5), (0, 2)),
        Kill(4, tuple(range(1000))),
        (5, 3, 1, (1, "text"), (0,), (6,)),
        Run(6, 3, "x = 1\n" * 1000),
        Stop(7),
    ]
    for command in sent:
        channel.send(command)
    got = [full(receive()) for _ in sent]
    meant = [full(command) for command in sent]
    expect(got == meant, f"sent {sent}, received {got}")
    expect([type(m) for m in got] == [type(m) for m in meant], "a message changed its class")


def sending_does_not_wait_for_the_receiver(make: Make) -> None:
    """Ten thousand messages can be sent before one is received."""
    channel, receive = make()
    for seq in range(10_000):
        channel.send(Sync(seq))
    got = [receive()[0] for _ in range(10_000)]
    expect(got == list(range(10_000)), "messages were lost or changed places")


def several_threads_may_send(make: Make) -> None:
    """Nothing is lost or duplicated, and each thread's messages keep their order."""
    channel, receive = make()

    def send(start: int) -> None:
        for seq in range(start, start + 500):
            channel.send(Sync(seq))

    threads = [threading.Thread(target=send, args=(number * 1000,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got = [receive()[0] for _ in range(1500)]
    for number in range(3):
        mine = [seq for seq in got if seq // 1000 == number]
        expect(mine == list(range(number * 1000, number * 1000 + 500)), f"thread {number} sent, got {mine}")


def what_was_sent_before_closing_still_arrives(make: Make) -> None:
    """Closing refuses later commands; earlier ones still arrive."""
    channel, receive = make()
    channel.send(Sync(1))
    channel.close()
    channel.close()  # twice is no error
    try:
        channel.send(Sync(2))
    except SessionClosed as error:
        expect("Sync" in str(error), f"the error does not say what was refused: {error}")
    else:
        raise AssertionError("a closed channel took a command")
    expect(receive() == Sync(1), "the message sent before closing did not arrive")


CHANNEL_CHECKS = (
    messages_arrive_whole_and_in_order,
    sending_does_not_wait_for_the_receiver,
    several_threads_may_send,
    what_was_sent_before_closing_still_arrives,
)


def check_channel(make: Make) -> None:
    """Run a channel through all checks; raise AssertionError at the first one that fails.

    Args:
        make: returns a new channel, and the function with which its worker takes the next command out.
    """
    for check in CHANNEL_CHECKS:
        with told(check):
            check(make)
