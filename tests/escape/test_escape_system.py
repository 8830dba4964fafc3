"""Files, processes and secrets of the host, and privileged system calls."""

import os
import platform
import re
import time
from pathlib import Path

from tests.escape.escape_harness import EscapeHarness, mounts
from timeloom.sandbox.seccomp import DENIED_SYSCALLS
from timeloom.testing.sandbox_contract.fixtures import OutputRecorder, TableBroker, program


def number(name: str) -> int:
    found = next(each for each in DENIED_SYSCALLS if each.name == name)
    value = found.x86_64 if platform.machine() == "x86_64" else found.aarch64
    assert value is not None
    return value


def test_no_file_of_the_host_is_in_reach(stage: EscapeHarness) -> None:
    stage.assert_contained(f"""
for path in ({str(stage.outside / "secret.txt")!r}, "/etc/shadow", "/etc/ssh", "/root/.ssh", "/home", "/var", "/run",
             "/proc/1/root/etc/shadow", "/proc/self/root/../../etc/shadow", "/dev/sda", "/dev/vda", "/dev/mem",
             "/dev/kmsg", "/sys", "/proc/kcore", "/proc/cmdline", "/proc/keys"):
    # Some sandboxes have an empty file in the place of what nobody is to see.
    attempt(path, lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(10) or 1 / 0)
folder = os.open("/", os.O_RDONLY)
attempt("..", lambda: os.open({str(stage.outside)!r}.lstrip("/"), os.O_RDONLY, dir_fd=folder))
""")


def test_nothing_but_its_folders_can_be_written(stage: EscapeHarness) -> None:
    stage.assert_contained("""
for folder in ("/", "/usr", "/usr/bin", "/etc", "/dev", "/proc/1", "/workspace", os.path.dirname(os.__file__),
               "/workspace/sock", "/proc/sys/kernel"):
    attempt(folder, lambda: open(os.path.join(folder, "x"), "w"))
for file in ("/etc/passwd", os.__file__, sys.executable, "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger",
             "/proc/self/uid_map", "/proc/self/setgroups", "/proc/self/gid_map"):
    attempt(file, lambda: os.write(os.open(file, os.O_WRONLY), b"0 0 1"))
attempt("oom", lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000"))
""")


def test_no_process_of_others_is_seen(stage: EscapeHarness) -> None:
    printed = stage.assert_contained(f"""
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
print("seen", len(pids))
for pid in ({os.getpid()}, os.getppid(), 1):
    for name in ("environ", "mem", "maps", "root/etc/shadow", "cwd/x", "fd/0"):
        if pid != os.getpid():
            attempt(f"{{pid}}/{{name}}", lambda: open(f"/proc/{{pid}}/{{name}}", "rb").read(1))
""")
    assert int(printed.partition("seen ")[2].split()[0]) <= 3


def test_the_first_process_of_its_namespace_cannot_be_taken_over(stage: EscapeHarness) -> None:
    """It runs without the filter of system calls, where there is such a process."""
    stage.assert_contained("""
for path in ("/proc/1/mem", "/proc/1/task/1/mem", f"/proc/{os.getppid()}/mem"):
    if os.getpid() != 1 and not path.startswith(f"/proc/{os.getpid()}/"):
        attempt(path, lambda: os.open(path, os.O_RDWR))
""")


def test_no_secret_is_in_its_environment_or_anywhere_in_its_processes(stage: EscapeHarness) -> None:
    """That the secret is in nothing it prints is checked by the stage."""
    printed = stage.assert_contained("""
print(sorted(os.environ))
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    for name in ("environ", "cmdline", "comm"):
        try: print(pid, name, open(f"/proc/{pid}/{name}", "rb").read())
        except OSError as error: print(pid, name, error)
import re
print(open("/proc/self/mountinfo").read())
maps = [line.split() for line in open("/proc/self/maps") if " rw-p " in line]
memory = open("/proc/self/mem", "rb")
for span, *_ in maps:
    low, high = (int(each, 16) for each in span.split("-"))
    try:
        memory.seek(low)
        # By a pattern that does not match itself.
        attempt("own memory", lambda: re.search(rb"canary-[0-9a-f]{12}", memory.read(high - low))[0])
    except (OSError, ValueError, OverflowError): pass
""")
    assert "TIMELOOM" not in printed


def test_keyrings_are_refused(stage: EscapeHarness) -> None:
    stage.assert_contained(f"""
attempt("add", lambda: system_call({number("add_key")}, b"user", b"name", b"payload", 7, -3))
attempt("request", lambda: system_call({number("request_key")}, b"user", b"name", None, 0))
attempt("session", lambda: system_call({number("keyctl")}, 1, None))
attempt("link", lambda: system_call({number("keyctl")}, 0, -3, 1))
""")


def test_io_uring_is_refused(stage: EscapeHarness) -> None:
    stage.assert_contained(f"""
parameters = ctypes.create_string_buffer(120)
attempt("setup", lambda: system_call({number("io_uring_setup")}, 4, parameters))
""")


def test_kernel_modules_and_programs_are_refused(stage: EscapeHarness) -> None:
    stage.assert_contained(f"""
image = open(sys.executable, "rb").read()
attempt("module", lambda: system_call({number("init_module")}, image, len(image), b""))
attempt("module file", lambda: system_call({number("finit_module")}, os.open(sys.executable, os.O_RDONLY), b"", 0))
attempt("kernel", lambda: system_call({number("kexec_load")}, 0, 0, None, 0))
attempt("bpf", lambda: system_call({number("bpf")}, 0, ctypes.create_string_buffer(128), 128))
attempt("faults", lambda: system_call({number("userfaultfd")}, 0))
attempt("events", lambda: system_call({number("perf_event_open")}, ctypes.create_string_buffer(128), 0, -1, -1, 0))
""")


def test_tracing_is_refused(stage: EscapeHarness) -> None:
    stage.assert_contained(f"""
child = os.fork()
if child == 0:
    time.sleep(30)
for pid in (1, os.getppid(), child):
    attempt(f"attach {{pid}}", lambda: system_call({number("ptrace")}, 16, pid, 0, 0))
    attempt(f"read {{pid}}", lambda: system_call({number("process_vm_readv")}, pid, None, 0, None, 0, 0))
attempt("be traced", lambda: system_call({number("ptrace")}, 0, 0, 0, 0))
os.kill(child, 9)
""")


def test_all_system_calls_that_are_refused_are(stage: EscapeHarness) -> None:
    calls = {
        each.name: number(each.name) for each in DENIED_SYSCALLS if each.x86_64 is not None and each.aarch64 is not None
    }
    stage.assert_contained(f"""
for name, number in {calls!r}.items():
    try: system_call(number, 0, 0, 0, 0, 0)
    except OSError as error: assert error.errno in (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP), (name, error)
    else: print("ESCAPED", name)
""")


def test_files_that_others_open_are_neither_watched_nor_held_up(stage: EscapeHarness) -> None:
    stage.assert_contained("""
import fcntl
mine = os.open("/workspace/work/mine", os.O_RDWR | os.O_CREAT)
attempt("watch", lambda: called("inotify_init1", 0))
attempt("watch as of old", lambda: called("inotify_init"))
for place in (os.open(os.__file__, os.O_RDONLY), mine):
    attempt("lease", lambda: fcntl.fcntl(place, fcntl.F_SETLEASE, fcntl.F_RDLCK))
attempt("hear", lambda: fcntl.fcntl(os.open("/usr", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_CREATE))
# What libraries do with files of their own.
fcntl.flock(mine, fcntl.LOCK_EX)
fcntl.lockf(mine, fcntl.LOCK_EX)
""")


def test_no_namespace_is_made(stage: EscapeHarness) -> None:
    stage.assert_contained("""
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    attempt(hex(flag), lambda: called("unshare", flag))
    stack = ctypes.create_string_buffer(65536)
    callback = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)
    top = ctypes.c_void_p(ctypes.addressof(stack) + 65536)
    attempt("clone " + hex(flag), lambda: called("clone", callback, top, flag | 17, None))
""")


def test_mount_and_chroot_are_refused(stage: EscapeHarness) -> None:
    stage.assert_contained("""
attempt("mount", lambda: called("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None))
attempt("bind", lambda: called("mount", b"/usr", b"/tmp", None, 4096, None))
attempt("remount", lambda: called("mount", None, b"/", None, 32, None))
attempt("umount", lambda: called("umount2", b"/proc/1", 2))
attempt("chroot", lambda: os.chroot("/tmp"))
""")


def test_nobody_becomes_somebody_else(stage: EscapeHarness) -> None:
    done = stage.run("""
print("from", os.getuid())
attempt("setuid", lambda: os.setuid(0))
attempt("setgid", lambda: os.setgid(0))
attempt("setgroups", lambda: os.setgroups([0]))
attempt("setresuid", lambda: os.setresuid(0, 0, 0))
attempt("mknod", lambda: os.mknod(os.path.join(OUT_DIR, "disk"), 0o60666, os.makedev(8, 0)))
attempt("chown", lambda: os.chown(OUT_DIR, 0, 0))
import shutil, subprocess
shutil.copy(shutil.which("id"), os.path.join(OUT_DIR, "id"))
os.chmod(os.path.join(OUT_DIR, "id"), 0o6755)
print("as", subprocess.run([os.path.join(OUT_DIR, "id"), "-u"], capture_output=True, text=True).stdout)
for name in ("su", "mount", "passwd", "sudo"):
    if shutil.which(name):
        subprocess.run([shutil.which(name), "-c", "id"], stdin=subprocess.DEVNULL)
print(open("/proc/self/status").read())
""")
    assert "ESCAPED" not in done.description, done.description
    (uid,) = re.findall(r"^from (\d+)$", done.output.stdout, re.MULTILINE)
    assert f"as {uid}\n" in done.output.stdout
    assert uid != "0"
    assert "NoNewPrivs:\t1" in done.output.stdout
    for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert f"{name}:\t0000000000000000" in done.output.stdout


def test_what_it_leaves_does_not_belong_to_root(stage: EscapeHarness) -> None:
    """A setuid file is harmless if its owner is an unused uid."""
    code = """
import os, shutil
shutil.copy("/usr/bin/env", os.path.join(OUT_DIR, "env"))
os.chmod(os.path.join(OUT_DIR, "env"), 0o4755)
"""

    async def owner() -> int:
        async with stage.sandbox.run(program(code), TableBroker(), OutputRecorder()) as ran:
            return (ran.out_dir / "env").stat().st_uid

    assert stage.runner.run(owner()) != 0


def test_the_clock_and_priorities_stay_as_they_are(stage: EscapeHarness) -> None:
    before = time.time()
    stage.assert_contained("""
attempt("clock", lambda: time.clock_settime(time.CLOCK_REALTIME, 0))
attempt("nice", lambda: os.nice(-5))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -10))
attempt("realtime", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
import resource
attempt("limit", lambda: resource.setrlimit(resource.RLIMIT_NPROC, (100000, 100000)))
attempt("core", lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1)))
""")
    assert time.time() >= before
    assert os.getpriority(os.PRIO_PROCESS, 0) >= 0


def test_the_kernel_keeps_its_settings(stage: EscapeHarness) -> None:
    watched = [Path("/proc/sys/kernel/core_pattern"), Path("/proc/sys/kernel/hostname")]
    before = [path.read_bytes() for path in watched]
    stage.assert_contained("""
attempt("hostname", lambda: socket.sethostname("taken"))
for name in ("core_pattern", "hostname", "modprobe"):
    attempt(name, lambda: open(f"/proc/sys/kernel/{name}", "w").write("x"))
""")
    assert [path.read_bytes() for path in watched] == before
    assert mounts(stage.outside.parent) == []
