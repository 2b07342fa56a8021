"""stops.py - a test that ends by an exception or a signal leaves no server behind: server.py itself is tried."""
import os
import signal
import subprocess
import sys

from server import MODEL, PATIENCE, PROGRAM, check, done, until

HERE = os.path.dirname(os.path.abspath(__file__))
BODY = """
from server import Server
s = Server()
print(s.process.pid, flush=True)
"""


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


for name, ending, by in (("an exception", "raise ValueError('a test that is wrong')", None), ("a failed check", "import sys; sys.exit(1)", None),
                         ("its end", "", None), ("a signal", "import time; time.sleep(6000)", signal.SIGTERM)):
    test = subprocess.Popen([sys.executable, "-c", BODY + ending, PROGRAM, MODEL], cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True, env={**os.environ, "PYTHONPATH": HERE})
    pid = int(test.stdout.readline())
    if by:
        test.send_signal(by)
    test.wait(PATIENCE)
    gone = until(lambda: is_gone(pid))
    check(f"{name} ends the server", gone, pid)
    if not gone:
        os.kill(pid, signal.SIGKILL)
done()
