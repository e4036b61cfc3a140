/* SPDX-License-Identifier: Apache-2.0 */
#include "common/layout.h"

#include <stddef.h>

const char* const gbx_layout_devices[GBX_LAYOUT_DEVICES] = {
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};

const struct gbx_layout_link gbx_layout_links[GBX_LAYOUT_LINKS] = {
    {"/dev/fd", "/proc/self/fd"},
    {"/dev/stdin", "/proc/self/fd/0"},
    {"/dev/stdout", "/proc/self/fd/1"},
    {"/dev/stderr", "/proc/self/fd/2"},
    {"/var/tmp", "/tmp"},
};

const struct gbx_layout_scratch gbx_layout_scratch[GBX_LAYOUT_SCRATCH] = {
    {"/tmp", 01777, 2}, {"/home/user", 0700, 1}, {"/dev/shm", 01777, 1}};

/* The lists of moby and runc, and what else tells of the host: kernel
 * addresses, keys, timers, interrupts (GHSA-6fw5-f8r9-fgfm), devices. */
const char* const gbx_layout_hidden_files[] = {
    "/proc/config.gz",   "/proc/interrupts",
    "/proc/iomem",       "/proc/ioports",
    "/proc/kallsyms",    "/proc/kcore",
    "/proc/key-users",   "/proc/keys",
    "/proc/kmsg",        "/proc/kpagecount",
    "/proc/kpageflags",  "/proc/latency_stats",
    "/proc/locks",       "/proc/pagetypeinfo",
    "/proc/sched_debug", "/proc/slabinfo",
    "/proc/softirqs",    "/proc/sysrq-trigger",
    "/proc/timer_list",  "/proc/timer_stats",
    "/proc/vmallocinfo", NULL,
};
const char* const gbx_layout_hidden_dirs[] = {
    "/proc/acpi", "/proc/asound", "/proc/driver", "/proc/scsi", NULL};

/* The pressure files because anybody who may write to them can have the kernel
 * watch the host's pressure. */
const char* const gbx_layout_read_only_dirs[] = {
    "/proc/bus", "/proc/fs", "/proc/irq", "/proc/pressure", "/proc/sys", NULL};
