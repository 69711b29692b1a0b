// Opening what must be a plain file: a FIFO would wait for its writer, and a device may never end.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace attnlab {

/// Opens a file for reading. It never waits.
/// @returns a descriptor, which the caller closes.
/// @throws FileError with path and reason; also for a folder, a device, a FIFO or a socket.
int open_regular(const std::string& path);

struct CloseStream {
  void operator()(std::FILE* stream) const { std::fclose(stream); }
};
using InputStream = std::unique_ptr<std::FILE, CloseStream>;

/// The same as a stream. @throws FileError.
InputStream open_regular_stream(const std::string& path);

}  // namespace attnlab
