// The walls themselves, put up by a process around itself just before it becomes the foreign
// program. No memory is taken and nothing is thrown here.
#pragma once

#include <string>
#include <vector>

namespace attnlab::sharing::sandbox {

enum class LeftNamespaces {
  nothing,    ///< none of them
  some,       ///< users, network and processes
  mounts_too  ///< and the tree of files: it can be changed for this process alone
};

/// Namespaces of users, network, processes and mounts. The next child is the first of the new
/// processes.
LeftNamespaces leave_namespaces();
/// Everything but a folder becomes read-only: contents, names, modes and times.
/// Needs Left::mounts_too. @returns whether it did; where not, all is as before.
bool keep_only_writable(const std::string& folder);
/// A /proc that shows the processes of this namespace alone. @returns whether it stands.
bool hide_other_processes();
/// This process and those above it, their groups (negative, as kill() has them), and -1, which is
/// all of the user's. Takes memory: for before the fork.
std::vector<int> processes_above();
/// What Landlock of this kernel can do: its version, 0 where there is none.
int landlock_version();
/// Opens folders for a Landlock ruleset, and keeps this process within them. From Linux 6.12 on it
/// also sends no signals to processes that are not kept so.
/// @returns whether the kernel does.
bool keep_to_folders(const std::vector<std::string>& readable,
                     const std::vector<std::string>& writable);
/// Refuses sockets, what could bring them, what could take a wall down or see over it, and modes by
/// which a file lends its owner's rights to others (setuid, setgid).
/// @param truncate  refuse truncate(), which neither the mounts nor Landlock stop
/// @param above  processes and groups that it may not end, nor limit; where there are any, signals
///               by descriptors of processes are refused, too
/// @returns whether the filter stands.
bool refuse_calls(bool truncate, const std::vector<int>& above);
/// Gives every capability up, also those of the superuser. @returns whether it did.
bool drop_capabilities();
/// Files of 4 GiB at most, no core files, 4096 open files, 3/4 of the memory for one process.
/// @param processes  that this user may have, with those that run already
void limit_sizes(unsigned long processes);

}  // namespace attnlab::sharing::sandbox
