# SPDX-License-Identifier: Apache-2.0
"""All that a process can find out about what it is and may do, as JSON.

What differs between any two boxes is left out or made alike.
"""

import ctypes
import json
import os
import resource
import signal
import time

libc = ctypes.CDLL(None, use_errno=True)
seen = {}


def read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError as error:
        return error.strerror


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError as error:
        return error.strerror


# Sizes and counts of its past, and who started it.
PAST = ("PPid", "Vm", "Rss", "voluntary", "nonvoluntary", "FDSize", "x86_")

for line in read("/proc/self/status").splitlines():
    name, _, value = line.partition(":")
    if not name.startswith(PAST):
        seen["status " + name] = value.strip()
# How many signals wait for this user is nothing of its own: init's, say.
seen["status SigQ"] = seen["status SigQ"].split("/")[1]
for name in ("limits", "uid_map", "gid_map", "setgroups", "projid_map",
             "cgroup", "oom_score_adj", "coredump_filter", "personality",
             "timerslack_ns", "loginuid", "sessionid", "attr/current", "comm",
             "timers", "wchan", "stack"):
    seen[name] = read("/proc/self/" + name)
# Without their numbers and devices, and where the workspace lies outside.
seen["mounts"] = sorted(
    " ".join(line.split()[3 if "/workspace" not in line else 4:])
    for line in read("/proc/self/mountinfo").splitlines())
seen["namespaces"] = sorted(os.listdir("/proc/self/ns"))
seen["descriptors"] = {}
for fd in sorted(os.listdir("/proc/self/fd"), key=int):
    link = attempt(os.readlink, "/proc/self/fd/" + fd)
    if "No such file" not in link:
        flags = read("/proc/self/fdinfo/" + fd).splitlines()[1]
        seen["descriptors"][fd] = link.split(":")[0], flags
for name in "cwd", "root", "exe":
    seen[name] = attempt(os.readlink, "/proc/self/" + name)
for path in "/proc/self", "/proc/self/fd", "/proc/self/mem":
    info = os.stat(path)
    seen["owner of " + path] = info.st_uid, info.st_gid, oct(info.st_mode)
for name in dir(resource):
    if name.startswith("RLIMIT_"):
        seen[name] = resource.getrlimit(getattr(resource, name))
for name, number, is_pointer in (
        ("PDEATHSIG", 2, 1), ("DUMPABLE", 3, 0), ("KEEPCAPS", 7, 0),
        ("SECCOMP", 21, 0), ("TSC", 25, 1), ("SECUREBITS", 27, 0),
        ("TIMERSLACK", 30, 0), ("MCE_KILL", 34, 0), ("CHILD_SUBREAPER", 37, 1),
        ("NO_NEW_PRIVS", 39, 0), ("THP_DISABLE", 42, 0),
        ("IO_FLUSHER", 58, 0)):
    out = ctypes.c_int(-1)
    ctypes.set_errno(0)
    result = libc.prctl(number, ctypes.byref(out) if is_pointer else 0, 0, 0, 0)
    seen["PR_GET_" + name] = result, out.value, ctypes.get_errno()
for capability in range(41):
    seen["bounding %d" % capability] = libc.prctl(23, capability, 0, 0, 0)
seen["scheduling"] = (
    os.sched_getscheduler(0), os.sched_getparam(0).sched_priority,
    sorted(os.sched_getaffinity(0)), os.getpriority(os.PRIO_PROCESS, 0))
umask = os.umask(0)
os.umask(umask)
seen["umask"] = umask
seen["ids"] = (os.getpid(), os.getsid(0), os.getpgid(0), os.getresuid(),
               os.getresgid(), os.getgroups())
seen["blocked"] = sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))
seen["pending"] = sorted(map(int, signal.sigpending()))
seen["handlers"] = {int(number): str(signal.getsignal(number))
                    for number in signal.valid_signals()}
seen["timers of it"] = [signal.getitimer(kind) for kind in range(3)]
seen["names"] = os.uname()[1], read("/proc/sys/kernel/domainname")
seen["processes"] = sorted(filter(str.isdigit, os.listdir("/proc")))
seen["threads"] = len(os.listdir("/proc/self/task"))
seen["children"] = read("/proc/self/task/%d/children" % os.getpid())
seen["a child"] = attempt(os.waitpid, -1, os.WNOHANG)
for name in "net/unix", "sysvipc/shm", "sysvipc/sem", "sysvipc/msg", "locks":
    seen[name] = read("/proc/" + name)
for path in "/tmp", "/home/user", "/dev/shm", "/", "/dev", "/run/glovebox":
    seen["in " + path] = sorted(os.listdir(path))
seen["executable and writable"] = [
    line for line in read("/proc/self/maps").splitlines() if " rwx" in line]
seen["time zone"] = time.tzname
print(json.dumps(seen))
