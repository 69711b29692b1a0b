// What `attnlab status` prints.
#include <nlohmann/json.hpp>
#include <sstream>

#include "framework/base/text.h"
#include "framework/runs/run_status.h"

namespace attnlab {
namespace {

using nlohmann::json;

std::string progress_of(const CellReport& cell) {
  std::string text;
  if (cell.steps > 0) {
    text = "step " + std::to_string(cell.step) + "/" + std::to_string(cell.steps);
  }
  if (cell.seconds_left) text += ", about " + duration(*cell.seconds_left) + " left";
  const bool known = cell.detail.empty() || cell.detail.rfind("at step ", 0) == 0;
  if (known) return text;
  return text.empty() ? cell.detail : text + "; " + cell.detail;
}

std::string indented(const std::string& lines) {
  std::string out;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) out += "      | " + line + "\n";
  return out;
}

bool shows_progress(CellState state) {
  return state == CellState::running || state == CellState::killed ||
         state == CellState::interrupted || state == CellState::failed;
}

}  // namespace

std::string status_text(const StatusReport& report) {
  std::vector<std::string> counts;
  for (const auto& [state, count] : report.counts) {
    counts.push_back(std::to_string(count) + " " + std::string(name_of(state)));
  }
  std::string out = report.folder + ": " + join(counts, ", ") + "\n";
  std::size_t width = 0;
  const auto label_of = [](const CellReport& cell) {
    if (cell.experiment.empty()) return cell.folder;  // that nothing is known of
    return cell.experiment + "/" + cell.attention + "/" + std::to_string(cell.seed);
  };
  for (const CellReport& cell : report.cells) {
    if (cell.unfinished()) width = std::max(width, label_of(cell).size());
  }
  for (const CellReport& cell : report.cells) {
    if (!cell.unfinished()) continue;
    std::string label = label_of(cell), state(name_of(cell.state));
    label.resize(width, ' ');
    const std::string text = shows_progress(cell.state) ? progress_of(cell) : cell.detail;
    if (!text.empty()) state.resize(14, ' ');
    out += "  " + label + "  " + state + text + "\n";
    if (cell.state == CellState::superseded) out += "      | " + cell.folder + "\n";
    out += indented(cell.log);
  }
  for (const std::string& note : report.notes) out += note + "\n";
  return out;
}

std::string status_json(const StatusReport& report) {
  json out = {{"folder", report.folder},
              {"counts", json::object()},
              {"runs", json::array()},
              {"notes", report.notes}};
  for (const auto& [state, count] : report.counts) {
    out["counts"][std::string(name_of(state))] = count;
  }
  for (const CellReport& cell : report.cells) {
    json entry = {
        {"experiment", cell.experiment}, {"attention", cell.attention}, {"seed", cell.seed},
        {"state", name_of(cell.state)},  {"folder", cell.folder},       {"step", cell.step},
        {"steps", cell.steps},           {"detail", cell.detail}};
    if (cell.seconds_left) entry["seconds_left"] = *cell.seconds_left;
    if (!cell.log.empty()) entry["log"] = cell.log;
    out["runs"].push_back(std::move(entry));
  }
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace attnlab
