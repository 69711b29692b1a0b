#include "framework/train/tensorboard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <boost/crc.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <regex>
#include <sstream>
#include <vector>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/parsed_json.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kPrefix = "events.out.tfevents.";
constexpr std::size_t kFrame = 16;  // bytes of a record that are not its content

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The bytes of an unsigned number, lowest first.
template <class Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) {
    bytes += static_cast<char>(number >> (8 * i) & 0xFF);
  }
  return bytes;
}

std::uint64_t read_length(const std::string& bytes, std::size_t at) {
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(bytes[at + i]);
  return length;
}

// ---- protobuf: a field is (number << 3 | wire type), then its value

enum class Wire : std::uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
  return out;
}

std::string key(std::uint64_t field, Wire wire) {
  return varint(field << 3 | static_cast<std::uint64_t>(wire));
}

std::string field_bytes(std::uint64_t field, const std::string& bytes) {
  return key(field, Wire::bytes) + varint(bytes.size()) + bytes;
}

/// Event {double wall_time = 1; int64 step = 2; ...}: with what it is about.
std::string event(std::int64_t step, const std::string& what) {
  return key(1, Wire::fixed64) + little_endian(std::bit_cast<std::uint64_t>(wall_time())) +
         key(2, Wire::varint) + varint(static_cast<std::uint64_t>(step)) + what;
}

/// Summary.Value {string tag = 1; float simple_value = 2}, in Summary {repeated Value value = 1}.
std::string scalar(const std::string& tag, double value) {
  return field_bytes(1, field_bytes(1, tag) + key(2, Wire::fixed32) +
                            little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(value))));
}

std::string record(const std::string& content) {
  const std::string length = little_endian(static_cast<std::uint64_t>(content.size()));
  return length + little_endian(masked_crc32c(length)) + content +
         little_endian(masked_crc32c(content));
}

/// Event {string file_version = 3}, the first of a file, then Event {SessionLog session_log = 7},
/// SessionLog {SessionStatus status = 1}, START = 1.
std::string heading() {
  return record(event(0, field_bytes(3, "brain.Event:2"))) +
         record(event(0, field_bytes(7, key(1, Wire::varint) + varint(1))));
}
constexpr std::size_t kHeadingRecords = 2;

/// A line of metrics.jsonl as a record.
std::string record_of(const std::string& text) {
  const json line = parsed_json(text);
  const std::string split = line.at("split").get<std::string>();
  std::string suffix;
  if (line.contains("layer")) suffix.append("/layer").append(line.at("layer").dump());
  if (line.contains("call")) {  // counted from 0, and only from the second on
    suffix.append(".").append(std::to_string(line.at("call").get<int>() + 1));
  }
  std::string summary;
  for (const auto& [name, value] : line.items()) {
    if (name == "step" || name == "epoch" || name == "layer" || name == "call") continue;
    if (!value.is_number() && !value.is_null()) continue;
    summary +=
        scalar(fmt::format("{}/{}{}", split, name, suffix),
               value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
  return record(event(line.at("step").get<std::int64_t>(), field_bytes(5, summary)));
}

// ---- files

/// The whole and sound records of a file, without its heading; at most `most` of them.
std::vector<std::string> records_of(const std::string& path, std::size_t most) {
  const std::string bytes = read_text(path);
  std::vector<std::string> records;
  for (std::size_t at = 0;
       at + kFrame <= bytes.size() && records.size() < most + kHeadingRecords;) {
    const std::uint64_t length = read_length(bytes, at);
    if (length > bytes.size() - at - kFrame) break;
    const std::string whole = bytes.substr(at, length + kFrame);
    if (record(whole.substr(12, length)) != whole) break;
    records.push_back(whole);
    at += whole.size();
  }
  records.erase(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(
                                                       std::min(records.size(), kHeadingRecords)));
  return records;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::error_code error;
  if (!fs::exists(path, error)) return lines;
  std::istringstream in(read_text(path));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// When an event file was begun, in seconds since 1970, by its name: that of `new_name`, or what a
/// killed process left of a new file. Nothing for other names: such files are not ours. Two numbers
/// at the end are another writer's (PyTorch's HOST.PID.UID), so a host's name must not end in one.
std::optional<std::int64_t> begun(const std::string& name) {
  static const std::regex kOurs(
      R"(events\.out\.tfevents\.([0-9]{10})\.(?!.*\.[0-9]+\.[0-9]+(\.tmp-.*)?$).*\.[0-9]+(\.tmp-.*)?)");
  std::smatch parts;
  if (!std::regex_match(name, parts, kOurs)) return std::nullopt;
  return std::stoll(parts[1]);
}

/// Names of the event files in a folder, oldest first, and of what killed processes left.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (begun(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// "events.out.tfevents.1700000000.host.123". TensorBoard reads files in the order of their names,
/// so it stands behind all others, whatever the clock says.
std::string new_name(const std::vector<std::string>& others) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  auto seconds = static_cast<std::int64_t>(wall_time());
  if (!others.empty()) seconds = std::max(seconds, begun(others.back()).value_or(0) + 1);
  return fmt::format("{}{:010}.{}.{}", kPrefix, seconds, host, ::getpid());
}

}  // namespace

std::uint32_t masked_crc32c(const std::string& bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<std::uint32_t>(crc.checksum()), 15) + 0xA282EAD8U;
}

EventLog::EventLog(const std::string& folder, const std::string& metrics) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw FileError(fmt::format("{}: cannot make this folder: {}", folder, error.message()));
  }
  const std::vector<std::string> before = names_in(folder), lines = lines_of(metrics);
  std::vector<std::string> kept;
  for (const std::string& old : before) {  // of two, a kill left both: either will do
    if (old.find(".tmp-") != std::string::npos) continue;
    kept = records_of(fmt::format("{}/{}", folder, old), lines.size());
  }
  std::string bytes = heading();
  for (const std::string& one : kept) bytes += one;
  for (std::size_t i = kept.size(); i < lines.size(); ++i) bytes += record_of(lines[i]);
  path_ = fmt::format("{}/{}", folder, new_name(before));
  write_file(path_, bytes);
  for (const std::string& old : before) fs::remove(fmt::format("{}/{}", folder, old), error);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) throw_cannot("open");
}

EventLog::~EventLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void EventLog::add(const std::string& line) { append(record_of(line)); }

void EventLog::throw_cannot(const char* action) const {
  throw FileError(fmt::format(
      "{}: cannot {}: {}; make room or allow it, or do without: train.tensorboard=false", path_,
      action, std::strerror(errno)));
}

void EventLog::append(const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ::ssize_t written = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_cannot("write");
    done += static_cast<std::size_t>(written);
  }
}

}  // namespace attnlab
