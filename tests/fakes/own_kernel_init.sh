#!/bin/sh
# The first process of the kernel that own_kernel.py starts. Its root are the files of the machine of the test, which
# nobody can write to; folders for what changes are in its memory, and the folder for results is at /mnt.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
mount -t proc none /proc
mount -t sysfs none /sys
mkdir -p /dev/shm /dev/pts
for folder in /tmp /run /dev/shm; do mount -t tmpfs none "$folder"; done
mount -t devpts none /dev/pts
mount -t cgroup2 none /sys/fs/cgroup
ln -s /proc/self/fd /dev/fd
ip link set lo up
ulimit -n 20000
mount -t hostfs none /mnt -o "$results"
: > /mnt/began
cd "$start" && setsid sh /mnt/command.sh > /mnt/output 2>&1 < /dev/null
echo $? > /mnt/status
sync
poweroff -f
