// TensorBoard's event files, read by a decoder of the test's own.
#include "framework/train/tensorboard.h"
#include "framework/base/json.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/config/compose.h"
#include "framework/train/run.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::tensorboard_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Pair;
using testing::TempFolder;
using ::testing::UnorderedElementsAre;

// ---- the decoder, from the formats' descriptions: bit by bit, field by field

/// CRC-32C by definition: one bit at a time, reflected polynomial.
std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78U : 0);
  }
  return ~crc;
}

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xA282EAD8U;
  return rotated >> 17 | rotated << 15;
}

template <class Number>
Number number_at(std::string_view bytes, std::size_t at) {
  Number number = 0;
  for (std::size_t i = sizeof number; i-- > 0;) {
    number = static_cast<Number>(number << 8 | static_cast<unsigned char>(bytes.at(at + i)));
  }
  return number;
}

/// A message's fields: number, then the value's bytes (of a varint, its eight
/// bytes).
std::vector<std::pair<int, std::string>> fields_of(std::string_view bytes) {
  std::vector<std::pair<int, std::string>> fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.size()) {
    const std::uint64_t key = varint();
    std::string value;
    if ((key & 7) == 0) {
      for (std::uint64_t v = varint(), i = 0; i < 8; ++i) value += static_cast<char>(v >> (8 * i));
    } else {
      const std::size_t size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint();
      value = std::string(bytes.substr(at, size));
      at += size;
    }
    fields.emplace_back(static_cast<int>(key >> 3), value);
  }
  return fields;
}

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version;
  int session = 0;  ///< of a SessionLog: 1 is START
  std::map<std::string, float> scalars;
};

Event event_of(std::string_view bytes) {
  Event event;
  for (const auto& [field, value] : fields_of(bytes)) {
    if (field == 1) event.wall_time = std::bit_cast<double>(number_at<std::uint64_t>(value, 0));
    if (field == 2) event.step = static_cast<std::int64_t>(number_at<std::uint64_t>(value, 0));
    if (field == 3) event.version = value;
    if (field == 7) event.session = fields_of(value).at(0).second[0];
    if (field != 5) continue;
    for (const auto& [one, summary_value] : fields_of(value)) {
      EXPECT_EQ(one, 1);
      const auto parts = fields_of(summary_value);
      EXPECT_EQ(parts.at(0).first, 1);
      EXPECT_EQ(parts.at(1).first, 2);
      event.scalars[parts[0].second] =
          std::bit_cast<float>(number_at<std::uint32_t>(parts[1].second, 0));
    }
  }
  return event;
}

std::vector<Event> events_in(const std::string& file) {
  const std::string bytes = read_text(file);
  std::vector<Event> events;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::string_view all = bytes;
    const auto length = number_at<std::uint64_t>(all, at);
    EXPECT_EQ(unmasked(number_at<std::uint32_t>(all, at + 8)), crc32c(all.substr(at, 8)));
    const std::string_view content = all.substr(at + 12, length);
    EXPECT_EQ(unmasked(number_at<std::uint32_t>(all, at + 12 + length)), crc32c(content));
    events.push_back(event_of(content));
    at += length + 16;
  }
  return events;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().string());
  return names;
}

/// The events of the one file in a folder, without its heading, which is
/// checked.
std::vector<Event> scalars_in(const std::string& folder) {
  const std::vector<std::string> files = files_in(folder);
  EXPECT_EQ(files.size(), 1U);
  std::vector<Event> events = events_in(files.at(0));
  EXPECT_EQ(events.at(0).version, "brain.Event:2");
  EXPECT_EQ(events.at(1).session, 1);
  EXPECT_EQ(events.at(1).step, 0);
  events.erase(events.begin(), events.begin() + 2);
  return events;
}

std::vector<std::int64_t> steps_of(const std::vector<Event>& events) {
  std::vector<std::int64_t> steps;
  for (const Event& event : events) steps.push_back(event.step);
  return steps;
}

// ---- the writer

TEST(MaskedCrc32c, HasThePublishedValues) {
  // RFC 3720, appendix B.4, and the check value of the catalogue of CRC
  // algorithms (CRC-32/ISCSI).
  const std::map<std::string, std::uint32_t> published = {{std::string(32, '\0'), 0x8A9136AAU},
                                                          {std::string(32, '\xFF'), 0x62A8AB43U},
                                                          {"123456789", 0xE3069283U},
                                                          {"", 0}};
  for (const auto& [bytes, crc] : published) {
    EXPECT_EQ(crc32c(bytes), crc);
    EXPECT_EQ(unmasked(masked_crc32c(bytes)), crc);
  }
}

TEST(EventLog, WritesTheNumbersOfALineUnderItsSplit) {
  const TempFolder folder;
  const std::time_t begun = std::time(nullptr);
  EventLog log(folder / "tensorboard", folder / "metrics.jsonl");
  log.add(R"({"split":"train","step":300,"epoch":1.5,"loss":0.25,"lr":1e-3,"note":"x"})");
  log.add(R"({"split":"trace","step":301,"epoch":1.6,"layer":2,"logit_max":7})");
  log.add(R"({"split":"trace","step":301,"epoch":1.6,"layer":2,"call":1,"logit_max":8})");
  const std::vector<Event> events = scalars_in(folder / "tensorboard");
  ASSERT_EQ(events.size(), 3U);
  EXPECT_THAT(events[0].scalars,
              UnorderedElementsAre(Pair("train/loss", 0.25F), Pair("train/lr", 1e-3F)));
  EXPECT_EQ(events[0].step, 300);
  EXPECT_GE(events[0].wall_time, static_cast<double>(begun));
  EXPECT_LE(events[0].wall_time, static_cast<double>(std::time(nullptr) + 1));
  EXPECT_THAT(events[1].scalars, ElementsAre(Pair("trace/logit_max/layer2", 7.0F)));
  EXPECT_THAT(events[2].scalars, ElementsAre(Pair("trace/logit_max/layer2.2", 8.0F)));
  EXPECT_THAT(fs::path(log.path()).filename().string(),
              ::testing::StartsWith("events.out.tfevents."));
}

TEST(EventLog, WritesWhatWasNotFiniteAsNan) {
  const TempFolder folder;
  EventLog log(folder / "tensorboard", folder / "metrics.jsonl");
  log.add(R"({"split":"train","step":1,"epoch":0.1,"loss":null})");
  EXPECT_TRUE(std::isnan(scalars_in(folder / "tensorboard").at(0).scalars.at("train/loss")));
}

std::string line_of(int step) {
  return R"({"split":"train","step":)" + std::to_string(step) + R"(,"loss":)" +
         std::to_string(step * 2) + "}\n";
}

TEST(EventLog, GoesOnWhereTheMetricsDo) {
  const TempFolder folder;
  double wall_time = 0;
  {
    EventLog log(folder / "tensorboard", folder / "metrics.jsonl");
    for (int step = 1; step <= 5; ++step) log.add(line_of(step));
    wall_time = scalars_in(folder / "tensorboard").at(1).wall_time;
  }
  folder.write("metrics.jsonl", line_of(1) + line_of(2) + line_of(3));
  EventLog log(folder / "tensorboard", folder / "metrics.jsonl");
  log.add(line_of(4));
  const std::vector<Event> events = scalars_in(folder / "tensorboard");
  EXPECT_THAT(steps_of(events), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(events[1].wall_time, wall_time);  // the old events themselves
}

TEST(EventLog, MendsADamagedFileFromTheMetrics) {
  const TempFolder folder;
  {
    EventLog log(folder / "tensorboard", folder / "metrics.jsonl");
    for (int step = 1; step <= 3; ++step) log.add(line_of(step));
  }
  const std::string file = files_in(folder / "tensorboard").at(0);
  std::string bytes = read_text(file);
  bytes[bytes.size() - 20] = static_cast<char>(bytes[bytes.size() - 20] ^ 1);  // of the third event
  folder.write("tensorboard/" + fs::path(file).filename().string(), bytes);
  folder.write("metrics.jsonl", line_of(1) + line_of(2) + line_of(3));
  const EventLog log(folder / "tensorboard", folder / "metrics.jsonl");
  const std::vector<Event> events = scalars_in(folder / "tensorboard");
  EXPECT_THAT(steps_of(events), ElementsAre(1, 2, 3));
  EXPECT_EQ(events[2].scalars.at("train/loss"), 6.0F);
}

TEST(EventLog, LeavesFilesOfOtherNamesAlone) {
  const TempFolder folder;
  const std::vector<std::string> others = {"events.out.tfevents.backup",
                                           "old-events.out.tfevents.1700000000.host.1",
                                           "events.out.tfevents.1700000000.host.1.backup",
                                           "events.out.tfevents.9.host.1",
                                           "events.out.tfevents.1700000000.host.1.0",
                                           "notes"};
  for (const std::string& name : others) folder.write("tensorboard/" + name, "the user's");
  folder.write("tensorboard/events.out.tfevents.1700000000.host.1.tmp-host-2", "half");
  folder.write("metrics.jsonl", line_of(1));
  std::string path;
  for (int start = 0; start < 2; ++start) {
    EventLog log(folder / "tensorboard", folder / "metrics.jsonl");
    path = log.path();
  }
  for (const std::string& name : others) {
    EXPECT_EQ(read_text(folder / ("tensorboard/" + name)), "the user's") << name;
  }
  EXPECT_EQ(files_in(folder / "tensorboard").size(), others.size() + 1) << "and one of its own";
  EXPECT_EQ(events_in(path).size(), 3U);
}

TEST(EventLog, StandsBehindAFileOfTheFuture) {
  const TempFolder folder;
  const std::string future =
      folder.write("tensorboard/events.out.tfevents.9876543210.host.1", "damaged");
  const EventLog log(folder / "tensorboard", folder / "metrics.jsonl");
  EXPECT_GT(log.path(), future);
  EXPECT_FALSE(fs::exists(future));
}

TEST(EventLog, SaysWhereItCannotWrite) {
  const TempFolder folder;
  folder.write("tensorboard", "a file");
  EXPECT_THAT(
      message_of<FileError>([&] { EventLog(folder / "tensorboard", folder / "metrics.jsonl"); }),
      HasSubstr(folder / "tensorboard"));
}

// ---- in a run

class Silent final : public ProgressSink {
 public:
  explicit Silent(std::int64_t stop_at = -1) : stop_at_(stop_at) {}
  void report(const ProgressEvent& event) override {
    if (event.kind == ProgressEvent::Kind::step && event.step == stop_at_) stop = true;
  }
  void say(const std::string&) override {}
  std::atomic<bool> stop{false};

 private:
  std::int64_t stop_at_;
};

RunStatus train(const std::string& folder, const std::string& train_more, std::int64_t stop_at) {
  const std::string text = R"(schema: 1
model: {use: vit, patch_size: 7, dim: 8, depth: 1, heads: 2}
attention: quest
task: image_classification
dataset: {use: synthetic_images, train: 32, test: 16}
trace: {every: 4, record: [logit_max]}
train: {epochs: 2, batch_size: 8, log_every: 2, threads: 1, workers: 0)" +
                           train_more + "}\n";
  const Experiment experiment =
      resolve_experiment(parse_yaml(text, "run.yaml"), testing::registry().catalogue(), "run");
  BuiltRun run = build_run(experiment, 0, testing::registry());
  const RunFolder place(folder);
  place.freeze(experiment, 0);
  Silent sink(stop_at);
  return train_run(run, place, sink, sink.stop);
}

/// Every number of metrics.jsonl, as the events should have them.
std::vector<std::pair<std::int64_t, std::map<std::string, float>>> expected_from(
    const std::string& metrics) {
  std::vector<std::pair<std::int64_t, std::map<std::string, float>>> all;
  std::ifstream in(metrics);
  for (std::string text; std::getline(in, text);) {
    const json line = json::parse(text);
    std::map<std::string, float> scalars;
    for (const auto& [name, value] : line.items()) {
      if (name == "step" || name == "epoch" || name == "layer" || name == "split") continue;
      std::string tag = line.at("split").get<std::string>();
      tag += "/" + name;
      if (line.contains("layer")) tag += "/layer" + line.at("layer").dump();
      scalars[tag] = value.get<float>();
    }
    all.emplace_back(line.at("step").get<std::int64_t>(), scalars);
  }
  return all;
}

void expect_events_are_the_metrics(const std::string& run) {
  const auto expected = expected_from(run + "/metrics.jsonl");
  const std::vector<Event> events = scalars_in(run + "/tensorboard");
  ASSERT_EQ(events.size(), expected.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].step, expected[i].first);
    EXPECT_EQ(events[i].scalars, expected[i].second);
  }
}

TEST(TensorBoard, ShowsTheScalarsOfARunsMetrics) {
  const TempFolder folder;
  train(folder / "run", "", -1);
  expect_events_are_the_metrics(folder / "run");
  std::map<std::string, int> tags;
  for (const Event& event : scalars_in(folder / "run/tensorboard")) {
    for (const auto& [tag, value] : event.scalars) ++tags[tag];
  }
  EXPECT_EQ(tags["train/loss"], 4);
  EXPECT_EQ(tags["test/accuracy"], 2);
  EXPECT_EQ(tags["trace/logit_max/layer0"], 3);  // steps 1, 4 and 8
}

TEST(TensorBoard, ShowsNoStepTwiceAfterARunWasStoppedAndResumed) {
  const TempFolder folder;
  EXPECT_EQ(train(folder / "run", "", 3).state, RunState::interrupted);
  EXPECT_EQ(train(folder / "run", "", -1).state, RunState::done);
  expect_events_are_the_metrics(folder / "run");
}

TEST(TensorBoard, CanBeTurnedOff) {
  const TempFolder folder;
  train(folder / "run", ", tensorboard: false", -1);
  EXPECT_FALSE(fs::exists(folder / "run/tensorboard"));
}

}  // namespace
}  // namespace attnlab::tensorboard_test
