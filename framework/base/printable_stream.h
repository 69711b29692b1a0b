// What a stream is given, made fit for a terminal on its way out.
#pragma once

#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>

namespace attnlab {

/// While this lives, a stream hands on what it is given as `printable` text, but for tabs and for
/// CR LF, which ends lines of CSV. So no command can forget a name, a path or a plugin's words, and
/// JSON still means what it meant. A character that comes in parts, as bytes of a language model
/// do, is put together first. As safe with several threads as the standard streams are.
class PrintableStream final : private std::streambuf {
 public:
  explicit PrintableStream(std::ostream& stream);
  /// The stream is as before, and keeps what it knows of failures.
  ~PrintableStream() override;
  PrintableStream(const PrintableStream&) = delete;
  PrintableStream& operator=(const PrintableStream&) = delete;

 private:
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int_type overflow(int_type character) override;
  int sync() override;
  /// @returns whether all of it was taken.
  bool hand_on(const std::string& text);

  std::ostream& stream_;
  std::mutex mutex_;
  std::string held_;  ///< the beginning of a character, or a CR
  std::streambuf* below_;
};

}  // namespace attnlab
