// What `attnlab status` prints.
#include <fmt/format.h>

#include <sstream>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/runs/run_status.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// What plugins, launchers and files said.
std::string detail_of(const CellReport& cell) { return one_line(cell.detail, kLongestMessageLine); }

std::string progress_of(const CellReport& cell) {
  std::string text;
  if (cell.steps > 0) {
    text = fmt::format("step {}/{}", cell.step, cell.steps);
  }
  if (cell.seconds_left) text += fmt::format(", about {} left", duration(*cell.seconds_left));
  const bool known = cell.detail.empty() || cell.detail.rfind("at step ", 0) == 0;
  if (known) return text;
  return text.empty() ? detail_of(cell) : fmt::format("{}; {}", text, detail_of(cell));
}

std::string indented(const std::string& lines) {
  std::string out;
  std::istringstream text(without_backtrace(lines));
  for (std::string line; std::getline(text, line);) {
    out += fmt::format("      | {}\n", message_text(line));
  }
  return out;
}

bool shows_progress(CellState state) {
  return state == CellState::running || state == CellState::killed ||
         state == CellState::interrupted || state == CellState::failed;
}

/// Of all runs: superseded and failed ones were paid for, too.
struct UsedTime {
  double processor_seconds = 0, device_seconds = 0;
};
UsedTime used_time(const StatusReport& report) {
  UsedTime all;
  for (const CellReport& cell : report.cells) {
    all.processor_seconds += cell.processor_seconds;
    all.device_seconds += cell.device_seconds;
  }
  return all;
}

}  // namespace

std::string status_text(const StatusReport& report) {
  std::vector<std::string> counts;
  for (const auto& [state, count] : report.counts) {
    counts.push_back(fmt::format("{} {}", count, name_of(state)));
  }
  std::string out =
      fmt::format("{}: {}\n", one_line(report.folder, kLongestMessageLine), join(counts, ", "));
  const UsedTime used = used_time(report);
  if (used.processor_seconds > 0) {
    out += fmt::format("  used: {} of processor time", duration(used.processor_seconds));
    if (used.device_seconds > 0) {
      out += fmt::format(", {} of device time", duration(used.device_seconds));
    }
    out += "\n";
  }
  std::size_t width = 0;
  const auto label_of = [](const CellReport& cell) {
    return one_line(cell.experiment.empty()
                        ? cell.folder  // that nothing is known of
                        : fmt::format("{}/{}/{}", cell.experiment, cell.attention, cell.seed),
                    kLongestMessageLine);
  };
  for (const CellReport& cell : report.cells) {
    if (cell.unfinished()) width = std::max(width, label_of(cell).size());
  }
  for (const CellReport& cell : report.cells) {
    if (!cell.unfinished()) continue;
    std::string label = label_of(cell), state(name_of(cell.state));
    label.resize(width, ' ');
    const std::string text = shows_progress(cell.state) ? progress_of(cell) : detail_of(cell);
    if (!text.empty()) state.resize(14, ' ');
    out += fmt::format("  {}  {}{}\n", label, state, text);
    if (cell.state == CellState::superseded)
      out += indented(one_line(cell.folder, kLongestMessageLine));
    out += indented(cell.log);
  }
  for (const std::string& note : report.notes) out += one_line(note, kLongestMessageLine) + "\n";
  return out;
}

std::string status_json(const StatusReport& report) {
  const UsedTime used = used_time(report);
  json out = {{"folder", report.folder},
              {"counts", json::object()},
              {"processor_seconds", used.processor_seconds},
              {"device_seconds", used.device_seconds},
              {"runs", json::array()},
              {"notes", report.notes}};
  for (const auto& [state, count] : report.counts) {
    out["counts"][std::string(name_of(state))] = count;
  }
  for (const CellReport& cell : report.cells) {
    json entry = {{"experiment", cell.experiment},
                  {"attention", cell.attention},
                  {"seed", cell.seed},
                  {"state", name_of(cell.state)},
                  {"folder", cell.folder},
                  {"step", cell.step},
                  {"steps", cell.steps},
                  {"detail", cell.detail},
                  {"processor_seconds", cell.processor_seconds},
                  {"device_seconds", cell.device_seconds}};
    if (cell.seconds_left) entry["seconds_left"] = *cell.seconds_left;
    if (!cell.log.empty()) entry["log"] = cell.log;
    out["runs"].push_back(std::move(entry));
  }
  return json_text(out);
}

}  // namespace attnlab
