#include "framework/runs/progress_bars.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/runs/metric_text.h"

namespace attnlab {
namespace {

constexpr int kBarWidth = 24;

int width_of(const std::string& text) { return static_cast<int>(display_width(text)); }

/// "━━━━━━──────────────────  25 % ".
std::string bar_text(double part) {
  const int full = static_cast<int>(part * kBarWidth);
  std::string bar;
  for (int i = 0; i < kBarWidth; ++i) bar += i < full ? "━" : "─";
  char percent[16];
  std::snprintf(percent, sizeof percent, " %3.0f %% ", 100 * part);
  return bar + percent;
}

/// A run that is under way.
struct Bar {
  std::string run;
  std::int64_t first = 0, step = 0, steps = 0;
  std::map<std::string, double> metrics;
  Estimate estimate;

  double part_at(std::int64_t at) const {
    return steps > 0 ? static_cast<double>(at) / static_cast<double>(steps) : 0;
  }
  double part() const { return part_at(step); }
  /// Of the whole run, what this process has done.
  double gained() const { return part() - part_at(first); }
};

class BarProgress final : public ProgressSink {
 public:
  BarProgress(std::int64_t total_runs, ScreenSize (*size)())
      : total_(total_runs), size_(size), numbers_(total_runs) {}
  ~BarProgress() override { write(erased()); }

  void report(const ProgressEvent& event) override {
    metrics_.learn(event);
    switch (event.kind) {
      case ProgressEvent::Kind::start:
        start(event);
        draw();
        break;
      case ProgressEvent::Kind::step:
        update(event);
        if (Clock::now() - drawn_at_ >= std::chrono::milliseconds(100)) draw();
        break;
      case ProgressEvent::Kind::evaluation:
        update(event);
        draw();
        break;
      case ProgressEvent::Kind::note:
        say(fmt::format("{}: {}", event.run, message_text(event.text)));
        break;
      case ProgressEvent::Kind::end:
        end(event);
        break;
    }
  }

  void say(const std::string& text) override {
    std::string out = fmt::format("{}{}\n", erased(), printable(without_backtrace(text)));
    if (total_ > 1 && !bars_.empty()) out += frame();
    write(out);
  }

 private:
  Bar& bar_of(const ProgressEvent& event) {
    for (Bar& bar : bars_) {
      if (bar.run == event.run) return bar;
    }
    bars_.emplace_back().run = event.run;
    return bars_.back();
  }

  void start(const ProgressEvent& event) {
    Bar& bar = bar_of(event);
    bar = Bar();
    bar.run = event.run;
    bar.first = bar.step = event.step;
    bar.steps = event.steps;
    bar.estimate.start(event.step);
    if (begin_ == Clock::time_point()) begin_ = Clock::now();
  }

  void update(const ProgressEvent& event) {
    Bar& bar = bar_of(event);
    bar.step = event.step;
    bar.steps = event.steps;
    for (const auto& [name, value] : event.metrics) bar.metrics[name] = value;
  }

  void end(const ProgressEvent& event) {
    const auto same = [&](const Bar& bar) { return bar.run == event.run; };
    const auto found = std::find_if(bars_.begin(), bars_.end(), same);
    if (found != bars_.end()) {
      gained_ += 1 - found->part_at(found->first);
      bars_.erase(found);
    }
    ++done_;
    const std::string head = numbers_.head(event.run);
    numbers_.end(event.run);
    say(fmt::format("{}{}: {}  {}", head, event.run, message_text(event.text),
                    metrics_.text(event)));
    metrics_.forget(event.run);
  }

  /// Lines of the bars, without line ends.
  std::vector<std::string> lines() {
    const std::size_t room = static_cast<std::size_t>(std::max(size_().rows - 3, 1));
    const std::size_t shown = std::min(bars_.size(), room);
    std::vector<std::string> heads;
    int widest = 0;
    for (std::size_t i = 0; i < shown; ++i) {
      heads.push_back(fmt::format("{}{} ", numbers_.head(bars_[i].run), bars_[i].run));
      widest = std::max(widest, width_of(heads.back()));
    }
    std::vector<std::string> all;
    for (std::size_t i = 0; i < shown; ++i) {
      const Bar& bar = bars_[i];
      const std::string left = bar.estimate.left(bar.step, bar.steps);
      all.push_back(padded(heads[i], widest) + bar_text(bar.part()) +
                    (left.empty() ? "" : left + " left  ") + metrics_.text(bar.run, bar.metrics));
    }
    if (shown < bars_.size()) {
      all.push_back(fmt::format("and {} more", bars_.size() - shown));
    }
    if (total_ > 1) all.push_back(padded("all ", widest) + overall());
    return all;
  }

  static std::string padded(const std::string& text, int width) {
    return text + std::string(static_cast<std::size_t>(std::max(0, width - width_of(text))), ' ');
  }

  /// The bar of all runs; the time left supposes that those to come take as long as those so far.
  std::string overall() const {
    double under_way = 0, gained = gained_;
    for (const Bar& bar : bars_) {
      under_way += bar.part();
      gained += bar.gained();
    }
    const auto total = static_cast<double>(total_), done = static_cast<double>(done_);
    std::string text = bar_text(std::min(1.0, (done + under_way) / total));
    if (gained > 0) {
      text += duration(seconds_since(begin_) / gained * std::max(0.0, total - done - under_way)) +
              " left  ";
    }
    return fmt::format("{}{} of {} runs ended", text, done_, total_);
  }

  /// What takes the last frame off the screen: the cursor stands at the end of its last line.
  std::string erased() {
    std::string out;
    for (std::size_t i = 0; i < drawn_lines_; ++i) out += i == 0 ? "\r\033[K" : "\033[1A\033[K";
    drawn_lines_ = 0;
    return out;
  }

  std::string frame() {
    const int columns = size_().columns - 1;
    std::string out = "\r\033[K";
    const std::vector<std::string> all = lines();
    for (std::size_t i = 0; i < all.size(); ++i) {
      // A line that is longer than the screen would scroll it with every frame.
      out += (i == 0 ? "" : "\n");
      out += display_prefix(printable(all[i]), static_cast<std::size_t>(std::max(0, columns)));
    }
    drawn_lines_ = all.size();
    drawn_at_ = Clock::now();
    return out;
  }

  void draw() {
    const std::string before = erased();
    write(before + frame());
  }

  /// In one piece, so that nothing flickers.
  static void write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  std::int64_t total_;
  ScreenSize (*size_)();
  RunNumbers numbers_;
  RunMetrics metrics_;
  std::vector<Bar> bars_;  ///< in the order in which the runs began
  std::int64_t done_ = 0;
  double gained_ = 0;  ///< by runs that have ended, in runs
  std::size_t drawn_lines_ = 0;
  Clock::time_point begin_{}, drawn_at_{};
};

}  // namespace

void RunMetrics::learn(const ProgressEvent& event) {
  if (!event.infos.empty()) infos_[event.run] = event.infos;
}

std::string RunMetrics::text(const std::string& run,
                             const std::map<std::string, double>& metrics) const {
  const auto found = infos_.find(run);
  return metrics_text(metrics, found == infos_.end() ? std::vector<MetricInfo>{} : found->second);
}

void Estimate::start(std::int64_t step) {
  first_ = step;
  begin_ = Clock::now();
}

std::string Estimate::left(std::int64_t step, std::int64_t steps) const {
  const double gone = seconds_since(begin_);
  if (step <= first_ || gone <= 0) return "";
  return duration(gone / static_cast<double>(step - first_) * static_cast<double>(steps - step));
}

std::string RunNumbers::head(const std::string& run) {
  if (total_ <= 1 || run.empty()) return "";
  const auto [place, is_new] = numbers_.emplace(run, 0);
  if (is_new) place->second = ++last_;
  return fmt::format("[{}/{}] ", std::min(total_, place->second), total_);
}

ScreenSize screen_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, size.ws_row > 0 ? size.ws_row : ScreenSize().rows};
}

std::unique_ptr<ProgressSink> make_bar_progress(std::int64_t total_runs, ScreenSize (*size)()) {
  return std::make_unique<BarProgress>(total_runs, size);
}

}  // namespace attnlab
