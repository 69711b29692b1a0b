// TensorBoard's event file of a run: the scalars of metrics.jsonl, an event for each line.
//
// Format: records of TensorFlow's TFRecord (length, masked CRC-32C of it, bytes, masked CRC-32C of
// them), each an Event message (wall time, step, Summary of tag and simple_value), written here
// without a protobuf library. Source: tensorflow/core/lib/io/record_writer.h,
// core/util/event.proto, core/framework/summary.proto.
//
// A resumed run begins a new file with a copy of the events up to its checkpoint and removes the
// old one, so that no step is there twice. The new file starts with a SessionLog of status START at
// step 0: a TensorBoard that is looking on forgets what it read of the old one. Files whose names
// are not of the form events.out.tfevents.SECONDS.HOST.PID are not ours, and stay: PyTorch's have
// another number behind them.
#pragma once

#include <cstdint>
#include <string>

namespace attnlab {

class EventLog {
 public:
  /// @param folder   made where it is missing
  /// @param metrics  metrics.jsonl, cut to where the run goes on: as many events are kept as it
  ///                 has lines. Where the old event file has fewer, they are made from the lines.
  /// @throws FileError when the folder cannot be written.
  EventLog(const std::string& folder, const std::string& metrics);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// Appends the event of a line of metrics.jsonl: its numbers, its epoch aside, as "split/name",
  /// of a trace "trace/name/layer0" (".2" after it for a second call). A null is a number that was
  /// not finite.
  /// @throws FileError (a full disk).
  void add(const std::string& line);

  const std::string& path() const { return path_; }

 private:
  void append(const std::string& bytes);
  [[noreturn]] void throw_cannot(const char* action) const;

  std::string path_;
  int descriptor_ = -1;
};

/// CRC-32C (Castagnoli) of bytes, as TFRecord masks it: rotated right by 15 and a constant added.
std::uint32_t masked_crc32c(const std::string& bytes);

}  // namespace attnlab
