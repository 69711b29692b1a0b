#include "framework/core/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/text.h"

namespace attnlab {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr const char* kKinds[] = {"start", "step", "evaluation", "note", "end"};

std::string metrics_text(const std::map<std::string, double>& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    if (!text.empty()) text += "  ";
    text += name + " " + metric_text(name, value);
  }
  return text;
}

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
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
};

/// Time left of a run, from its own speed since it started (or resumed).
class Estimate {
 public:
  void start(std::int64_t step) {
    first_ = step;
    begin_ = Clock::now();
  }
  std::string left(std::int64_t step, std::int64_t steps) const {
    const double gone = std::chrono::duration<double>(Clock::now() - begin_).count();
    if (step <= first_ || gone <= 0) return "";
    return duration(gone / static_cast<double>(step - first_) * static_cast<double>(steps - step));
  }

 private:
  std::int64_t first_ = 0;
  Clock::time_point begin_ = Clock::now();
};

class PlainProgress : public ProgressSink {
 public:
  explicit PlainProgress(std::int64_t total_runs) : total_(total_runs) {}

  void report(const ProgressEvent& event) override {
    switch (event.kind) {
      case ProgressEvent::Kind::start:
        estimate_.start(event.step);
        last_ = Clock::now();
        say(head(event) + (event.step > 0 ? "resumes at step " + std::to_string(event.step)
                                          : "starts, " + std::to_string(event.steps) + " steps"));
        break;
      case ProgressEvent::Kind::step:
        if (Clock::now() - last_ < std::chrono::seconds(10)) break;
        last_ = Clock::now();
        say(head(event) + "step " + std::to_string(event.step) + "/" + std::to_string(event.steps) +
            "  " + metrics_text(event.metrics) + "  " + estimate_.left(event.step, event.steps) +
            " left");
        break;
      case ProgressEvent::Kind::evaluation: {
        char epoch[32];
        std::snprintf(epoch, sizeof epoch, "epoch %g: ", event.epoch);
        say(head(event) + epoch + metrics_text(event.metrics));
        break;
      }
      case ProgressEvent::Kind::note:
        say(head(event) + event.text);
        break;
      case ProgressEvent::Kind::end:
        ++done_;
        say(head(event) + event.text + "  " + metrics_text(event.metrics));
        break;
    }
  }

  void say(const std::string& text) override {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }

 private:
  std::string head(const ProgressEvent& event) const {
    std::string text;
    if (total_ > 1) {
      const std::int64_t number =
          std::min(total_, done_ + (event.kind == ProgressEvent::Kind::end ? 0 : 1));
      text = "[" + std::to_string(number) + "/" + std::to_string(total_) + "] ";
    }
    return event.run.empty() ? text : text + event.run + ": ";
  }

  std::int64_t total_;
  std::int64_t done_ = 0;
  Estimate estimate_;
  Clock::time_point last_ = Clock::now();
};

class BarProgress : public ProgressSink {
 public:
  explicit BarProgress(std::int64_t total_runs) : total_(total_runs) {}
  ~BarProgress() override { clear(); }

  void report(const ProgressEvent& event) override {
    switch (event.kind) {
      case ProgressEvent::Kind::start:
        estimate_.start(event.step);
        metrics_.clear();
        draw(event, true);
        break;
      case ProgressEvent::Kind::step:
        for (const auto& [name, value] : event.metrics) metrics_[name] = value;
        draw(event, false);
        break;
      case ProgressEvent::Kind::evaluation:
        for (const auto& [name, value] : event.metrics) metrics_[name] = value;
        draw(event, true);
        break;
      case ProgressEvent::Kind::note:
        say(event.run + ": " + event.text);
        break;
      case ProgressEvent::Kind::end:
        ++done_;
        say((total_ > 1 ? "[" + std::to_string(done_) + "/" + std::to_string(total_) + "] " : "") +
            event.run + ": " + event.text + "  " + metrics_text(event.metrics));
        break;
    }
  }

  void say(const std::string& text) override {
    clear();
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }

 private:
  static constexpr int kBarWidth = 24;

  void clear() {
    if (!drawn_) return;
    std::printf("\r\033[K");
    std::fflush(stdout);
    drawn_ = false;
  }

  void draw(const ProgressEvent& event, bool now) {
    if (!now && Clock::now() - last_ < std::chrono::milliseconds(100)) return;
    last_ = Clock::now();
    const double part =
        event.steps > 0 ? static_cast<double>(event.step) / static_cast<double>(event.steps) : 0;
    const int full = static_cast<int>(part * kBarWidth);
    std::string bar;
    for (int i = 0; i < kBarWidth; ++i) bar += i < full ? "━" : "─";
    char percent[16];
    std::snprintf(percent, sizeof percent, " %3.0f %% ", 100 * part);
    std::string text = event.run + " ";
    if (total_ > 1) {
      text = "[" + std::to_string(std::min(total_, done_ + 1)) + "/" + std::to_string(total_) +
             "] " + text;
    }
    const std::string left = estimate_.left(event.step, event.steps);
    std::string tail = percent + (left.empty() ? "" : left + " left  ") + metrics_text(metrics_);
    // One line: a longer one would scroll the terminal with every frame.
    const int room = columns() - static_cast<int>(text.size()) - kBarWidth - 1;
    if (room < static_cast<int>(tail.size()))
      tail.resize(static_cast<std::size_t>(std::max(room, 0)));
    std::printf("\r\033[K%s%s%s", text.c_str(), bar.c_str(), tail.c_str());
    std::fflush(stdout);
    drawn_ = true;
  }

  static int columns() {
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }

  std::int64_t total_;
  std::int64_t done_ = 0;
  bool drawn_ = false;
  std::map<std::string, double> metrics_;
  Estimate estimate_;
  Clock::time_point last_{};
};

class NoProgress : public ProgressSink {
 public:
  void report(const ProgressEvent&) override {}
  void say(const std::string&) override {}
};

bool in_percent(const std::string& name) {
  return name.find("accuracy") != std::string::npos || name.find("top5") != std::string::npos;
}

}  // namespace

ProgressMode parse_progress_mode(const std::string& word) {
  if (word == "auto") return ProgressMode::automatic;
  if (word == "bar") return ProgressMode::bar;
  if (word == "plain") return ProgressMode::plain;
  if (word == "json") return ProgressMode::json;
  if (word == "none") return ProgressMode::none;
  const std::vector<std::string> words = {"auto", "bar", "plain", "json", "none"};
  throw ConfigError("--progress: unknown mode '" + word + "'" + suggestion(word, words));
}

std::unique_ptr<ProgressSink> make_progress(ProgressMode mode, std::int64_t total_runs) {
  if (mode == ProgressMode::automatic) {
    mode = ::isatty(STDOUT_FILENO) ? ProgressMode::bar : ProgressMode::plain;
  }
  if (mode == ProgressMode::bar) return std::make_unique<BarProgress>(total_runs);
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
    out["metrics"][name] = std::isfinite(value) ? json(value) : json(nullptr);
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

ProgressEvent progress_event(const std::string& text) {
  try {
    const json in = json::parse(text);
    ProgressEvent event;
    const std::string kind = in.at("event").get<std::string>();
    int index = 0;
    while (index < 5 && kind != kKinds[index]) ++index;
    if (index == 5) throw Error("unknown event '" + kind + "'");
    event.kind = static_cast<ProgressEvent::Kind>(index);
    event.run = in.value("run", "");
    event.step = in.value("step", std::int64_t{0});
    event.steps = in.value("steps", std::int64_t{0});
    event.epoch = in.value("epoch", 0.0);
    event.text = in.value("text", "");
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

double metric_scale(const std::string& name) { return in_percent(name) ? 100.0 : 1.0; }

std::string metric_text(const std::string& name, double value) {
  char text[48];
  if (in_percent(name)) {
    std::snprintf(text, sizeof text, "%.2f %%", 100 * value);
  } else if (std::abs(value) >= 100) {
    std::snprintf(text, sizeof text, "%.0f", value);
  } else {
    std::snprintf(text, sizeof text, "%.4g", value);
  }
  return text;
}

}  // namespace attnlab
