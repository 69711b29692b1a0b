#!/usr/bin/env bash
# Slurm 22.05.8 (Debian 12). The manual of srun: signals sent to it "are automatically forwarded to the tasks it is
# controlling with a few exceptions"; the exceptions that it names are Ctrl-C and Ctrl-Z. USR1 and USR2 are forwarded. ALRM
# is not. On TERM and HUP srun says "forcing job termination", and its tasks, which would write a checkpoint on TERM, are
# killed at once (KILL) and never hear it, though KillWait is 30 seconds. So a program that asks a run to end must send
# USR1 to the srun before it, or TERM to the tasks without it (scancel --signal=TERM).
# Seen, for each signal that srun gets: what its task heard, and how srun ended. The task ends by itself after 20 seconds.
set -euo pipefail
folder=$(mktemp -d)
cleanup() { kill $(jobs -rp) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"; }
trap cleanup EXIT
chmod 711 "$folder"
mkdir -p "$folder"/{d,root,munge,state,spool}
(cd "$folder/d" && apt-get -qq download slurmctld=22.05.8-4+deb12u3 slurmd=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 \
  slurm-wlm-basic-plugins=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1 libmunge2=0.5.15-2+deb12u1 libhwloc15=2.9.0-1 libnuma1=2.0.16-1 \
  2>/dev/null && for one in *.deb; do dpkg-deb -x "$one" "$folder/root"; done)
bin=$folder/root/usr/sbin plugins=$folder/root/usr/lib/x86_64-linux-gnu/slurm-wlm
export PATH="$folder/root/usr/bin:$PATH" SLURM_CONF=$folder/slurm.conf
export LD_LIBRARY_PATH="$plugins:$folder/root/usr/lib/x86_64-linux-gnu"
head -c 64 /dev/urandom > "$folder/munge/key"
chmod 400 "$folder/munge/key" && chmod 700 "$folder/munge"
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }
host=$(hostname -s) user=$(id -un)
cat > "$SLURM_CONF" <<C
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(port)
SlurmdPort=$(port)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
PluginDir=$plugins
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
SwitchType=switch/none
KillWait=30
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP
C
"$bin/munged" --foreground --socket="$folder/munge.socket" --key-file="$folder/munge/key" --pid-file="$folder/munge/pid" \
  --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" 2>"$folder/munged.txt" &
until [ -e "$folder/munge.socket" ]; do sleep 0.2; done
"$bin/slurmctld-wlm" -D -c 2>"$folder/slurmctld.txt" &
"$bin/slurmd-wlm" -D -c -d "$bin/slurmstepd-wlm" 2>"$folder/slurmd.txt" &
for _ in $(seq 100); do sinfo --noheader --format=%T 2>/dev/null | grep -q idle && break; sleep 0.3; done
cat > "$folder/task.py" <<'P'
import os, signal, sys, time
def heard(number, frame):
    print("heard", signal.Signals(number).name[3:], flush=True)
    os._exit(0)
for name in sys.argv[1:]:
    signal.signal(getattr(signal, "SIG" + name), heard)
print("waits", flush=True)
time.sleep(20)
P
signals="USR1 USR2 ALRM HUP TERM"
for name in $signals; do
  : > "$folder/out"
  (exec srun --ntasks=1 --input=none python3 "$folder/task.py" $signals >"$folder/out" 2>"$folder/err") &
  pid=$!
  until grep -q waits "$folder/out" ; do sleep 0.1; done
  kill -"$name" $pid
  status=0 && wait $pid || status=$?
  printf '%s: %s, srun %d%s\n' "$name" "$(grep heard "$folder/out" || echo 'heard nothing')" $status \
    "$(grep -o ', \|forcing job termination' "$folder/err" | head -1 | sed 's/^/, /')"
done > "$folder/seen"
cat "$folder/seen"
diff - "$folder/seen" <<'S'
USR1: heard USR1, srun 0
USR2: heard USR2, srun 0
ALRM: heard nothing, srun 0
HUP: heard nothing, srun 137, forcing job termination
TERM: heard nothing, srun 137, forcing job termination
S
