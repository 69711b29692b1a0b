#include "framework/runs/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "framework/base/clock.h"
#include "framework/base/error.h"
#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/parsed_json.h"
#include "framework/base/text.h"
#include "framework/runs/metric_infos.h"
#include "framework/runs/metric_text.h"
#include "framework/runs/progress_bars.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr const char* kKinds[] = {"start", "step", "evaluation", "note", "end"};

class JsonProgress : public ProgressSink {
 public:
  void report(const ProgressEvent& event) override { line(to_json(event)); }
  void say(const std::string& text) override {
    ProgressEvent event;
    event.text = text;
    line(to_json(event));
  }

 private:
  static void line(const std::string& text) {
    std::printf("%s\n", printable(text).c_str());  // JSON stays what it means
    std::fflush(stdout);
  }
};

class PlainProgress : public ProgressSink {
 public:
  explicit PlainProgress(std::int64_t total_runs) : numbers_(total_runs) {}

  void report(const ProgressEvent& event) override {
    metrics_.learn(event);
    const std::string head = numbers_.head(event.run) + (event.run.empty() ? "" : event.run + ": ");
    switch (event.kind) {
      case ProgressEvent::Kind::start:
        runs_[event.run].estimate.start(event.step);
        runs_[event.run].last = Clock::now();
        say(head + (event.step > 0 ? fmt::format("resumes at step {}", event.step)
                                   : fmt::format("starts, {} steps", event.steps)));
        break;
      case ProgressEvent::Kind::step:
        step(head, event);
        break;
      case ProgressEvent::Kind::evaluation: {
        char epoch[32];
        std::snprintf(epoch, sizeof epoch, "epoch %g: ", event.epoch);
        say(head + epoch + metrics_.text(event));
        break;
      }
      case ProgressEvent::Kind::note:
        say(head + message_text(event.text));
        break;
      case ProgressEvent::Kind::end:
        runs_.erase(event.run);
        numbers_.end(event.run);
        say(fmt::format("{}{}  {}", head, message_text(event.text), metrics_.text(event)));
        metrics_.forget(event.run);
        break;
    }
  }

  void say(const std::string& text) override {
    std::printf("%s\n", printable(without_backtrace(text)).c_str());
    std::fflush(stdout);
  }

 private:
  struct Run {
    Estimate estimate;
    Clock::time_point last = Clock::now();  ///< when its last line was written
  };

  void step(const std::string& head, const ProgressEvent& event) {
    Run& run = runs_[event.run];
    if (Clock::now() - run.last < std::chrono::seconds(10)) return;
    run.last = Clock::now();
    say(fmt::format("{}step {}/{}  {}  {} left", head, event.step, event.steps,
                    metrics_.text(event), run.estimate.left(event.step, event.steps)));
  }

  RunNumbers numbers_;
  RunMetrics metrics_;
  std::map<std::string, Run> runs_;  ///< those under way
};

class NoProgress : public ProgressSink {
 public:
  void report(const ProgressEvent&) override {}
  void say(const std::string&) override {}
};

}  // namespace

ProgressMode parse_progress_mode(const std::string& word) {
  if (word == "auto") return ProgressMode::automatic;
  if (word == "bar") return ProgressMode::bar;
  if (word == "plain") return ProgressMode::plain;
  if (word == "json") return ProgressMode::json;
  if (word == "none") return ProgressMode::none;
  const std::vector<std::string> words = {"auto", "bar", "plain", "json", "none"};
  throw ConfigError(fmt::format("--progress: unknown mode '{}'{}", word, suggestion(word, words)));
}

std::unique_ptr<ProgressSink> make_progress(ProgressMode mode, std::int64_t total_runs) {
  if (mode == ProgressMode::automatic) {
    mode = ::isatty(STDOUT_FILENO) ? ProgressMode::bar : ProgressMode::plain;
  }
  if (mode == ProgressMode::bar) return make_bar_progress(total_runs);
  if (mode == ProgressMode::json) return std::make_unique<JsonProgress>();
  if (mode == ProgressMode::none) return std::make_unique<NoProgress>();
  return std::make_unique<PlainProgress>(total_runs);
}

std::string to_json(const ProgressEvent& event) {
  json out = {{"event", kKinds[static_cast<int>(event.kind)]}};
  if (!event.run.empty()) out["run"] = event.run;
  if (event.steps > 0) {
    out["step"] = event.step;
    out["steps"] = event.steps;
    out["epoch"] = event.epoch;
  }
  if (!event.text.empty()) out["text"] = event.text;
  for (const auto& [name, value] : event.metrics) {
    // JSON has no NaN; null says "not a finite number".
    out["metrics"][name] = finite_or_null(value);
  }
  if (!event.infos.empty()) out["infos"] = metric_infos_json(event.infos);
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

ProgressEvent progress_event(const std::string& text) {
  try {
    const json in = parsed_json(text);
    ProgressEvent event;
    const std::string kind = in.at("event").get<std::string>();
    int index = 0;
    while (index < 5 && kind != kKinds[index]) ++index;
    if (index == 5) throw Error(fmt::format("unknown event '{}'", kind));
    event.kind = static_cast<ProgressEvent::Kind>(index);
    event.run = in.value("run", "");
    event.step = in.value("step", std::int64_t{0});
    event.steps = in.value("steps", std::int64_t{0});
    event.epoch = in.value("epoch", 0.0);
    event.text = in.value("text", "");
    if (in.contains("infos")) event.infos = read_metric_infos(in.at("infos"));
    if (in.contains("metrics")) {
      for (const auto& [name, value] : in.at("metrics").items()) {
        event.metrics[name] = value.is_null() ? std::nan("") : value.get<double>();
      }
    }
    return event;
  } catch (const json::exception& error) {
    throw Error(std::string("not a progress event: ") + error.what());
  }
}

}  // namespace attnlab
