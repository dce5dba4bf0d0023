"""Everything the keeper's main loop waits for: signals, news from other threads, bytes on the wake pipe."""

import contextlib
import os
import queue
import selectors
import signal
from typing import Any, Callable, List, Optional, Tuple

from trialkeeper import contract
from trialkeeper.starting_threads import StartingThreads

News = Tuple[str, Any]

_READ_BY_ITS_OWNER = object()

#: Signals that are meant for trials: a scheduler sends them to the process that it has started, which is the keeper
#: (``sbatch --signal=B:USR1@60``).
FOR_TRIALS = (signal.SIGUSR1, signal.SIGUSR2)


class Wakeups:
    """Made on the main thread. Takes SIGTERM and SIGINT (counted), those for trials, SIGCHLD (a wake-up), and leaves
    SIGHUP unheard. Where those for trials have a handler already, they reach the trial without the keeper.
    """

    def __init__(self, folder: str) -> None:
        #: The keeper's threads; those that wait to be started are tried again by ``wait``.
        self.threads = StartingThreads()
        self.stop_signals: List[int] = []
        #: Those that the trial is to hear; whoever hands one on removes it.
        self.signals_for_trial: List[int] = []
        self._news: "queue.SimpleQueue[News]" = queue.SimpleQueue()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._reader, selectors.EVENT_READ)
        #: Path of the pipe for the trial, None where the file system has no pipes.
        self.pipe: Optional[str] = self._open_pipe(os.path.join(folder, contract.WAKE_FILE))
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_signal)
        for number in FOR_TRIALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._note_signal_for_trial)
        signal.signal(signal.SIGCHLD, _do_nothing)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD})

    def tell(self, word: str, detail: Any = None) -> None:
        """Leave news for the main loop. Any thread."""
        self._news.put((word, detail))
        with contextlib.suppress(BlockingIOError):  # it is full of wake-ups
            os.write(self._writer, b"!")

    def wait(self, seconds: float) -> None:
        """Return when something happened, or after this time."""
        self.threads.retry()
        for key, _ in self._selector.select(max(0.0, min(seconds, self.threads.seconds_left()))):
            if key.data is _READ_BY_ITS_OWNER:
                continue
            try:
                while len(os.read(key.fd, 4096)) == 4096:
                    pass
            except BlockingIOError:
                pass

    def listen(self, descriptor: int) -> None:
        """End ``wait`` when something can be read here, too; who asks for this reads it."""
        self._selector.register(descriptor, selectors.EVENT_READ, data=_READ_BY_ITS_OWNER)

    def forget(self, descriptor: int) -> None:
        """Listen no longer. Before it is closed."""
        self._selector.unregister(descriptor)

    def news(self) -> List[News]:
        """What was told since the last call, in order."""
        news = []
        while True:
            try:
                news.append(self._news.get_nowait())
            except queue.Empty:
                return news

    def in_background(self, word: str, work: Callable[[], Any]) -> None:
        """Do something slow on a thread, which may start later; its result, or what it raised, comes as news."""
        def run() -> None:
            try:
                result = work()
            except Exception as error:
                result = error
            self.tell(word, result)
        self.threads.start(word, run)

    def _open_pipe(self, path: str) -> Optional[str]:
        try:
            if not os.path.exists(path):
                os.mkfifo(path, 0o600)
            # opened for both, so that it does not end when the last writer closes it
            descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            self._selector.register(descriptor, selectors.EVENT_READ)
        except OSError:  # a plain file that the trial has put there
            os.close(descriptor)
            return None
        return path

    def _note_signal(self, number: int, frame: Any) -> None:
        self.stop_signals.append(number)

    def _note_signal_for_trial(self, number: int, frame: Any) -> None:
        self.signals_for_trial.append(number)


def _do_nothing(number: int, frame: Any) -> None:
    """SIGCHLD only has to wake the loop."""
