// The walls themselves, put up by a process around itself just before it becomes the foreign
// program. No memory is taken and nothing is thrown here.
#pragma once

#include <string>
#include <vector>

namespace attnlab::sharing::walls {

/// Namespaces of users, network and processes. The next child is the first of the new processes.
/// @returns whether they stand.
bool leave_network_and_processes();
/// Refuses sockets and what could bring them. @returns whether the filter stands.
bool refuse_sockets();
/// Opens folders for a Landlock ruleset, and keeps this process within them.
/// @returns whether the kernel does.
bool keep_to_folders(const std::vector<std::string>& readable,
                     const std::vector<std::string>& writable);
/// Files of 4 GiB at most, no core files.
void limit_sizes();

}  // namespace attnlab::sharing::walls
