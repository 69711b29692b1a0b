#include "framework/report/bias.h"

#include <limits>
#include <map>
#include <sstream>
#include <utility>

#include "framework/base/json.h"
#include "framework/report/curves.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// By layer and call.
using Layers = std::map<std::pair<std::int64_t, std::int64_t>, BiasFigure>;

/// Empty where it is not a list of lists of equal length.
std::vector<std::vector<double>> heads_in(const json& rows) {
  std::vector<std::vector<double>> heads;
  if (!rows.is_array()) return heads;
  for (const json& row : rows) {
    if (!row.is_array() || row.size() != rows.front().size()) return {};
    std::vector<double>& head = heads.emplace_back();
    for (const json& value : row) {
      head.push_back(value.is_number() ? value.get<double>()
                                       : std::numeric_limits<double>::quiet_NaN());
    }
  }
  return heads;
}

bool is_whole(const json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_number_integer()) return false;
  return !found->is_number_unsigned() ||
         std::in_range<std::int64_t>(found->get<json::number_unsigned_t>());
}

void add_line(const json& line, Layers& layers) {
  if (!line.is_object() || !is_whole(line, "step") || !is_whole(line, "layer")) return;
  const auto bias = line.find("bias");
  if (bias == line.end() || !bias->is_object()) return;
  if (!is_whole(*bias, "first") || !bias->contains("heads")) return;
  const std::int64_t layer = line.at("layer");
  const std::int64_t call = is_whole(line, "call") ? line.at("call").get<std::int64_t>() : 0;
  BiasFigure figure;
  figure.step = line.at("step");
  figure.layer = layer_name(layer, call);
  figure.first = bias->at("first");
  figure.heads = heads_in(bias->at("heads"));
  if (!figure.heads.empty() && !figure.heads.front().empty()) layers[{layer, call}] = figure;
}

/// The last of each layer.
Layers read_last(const std::string& folder) {
  Layers layers;
  std::istringstream text(read_log(folder));
  for (std::string line; std::getline(text, line);) {
    // Few lines of few runs have one: the others need not be parsed.
    if (line.find("\"bias\"") != std::string::npos) {
      add_line(parsed_line(line), layers);
    }
  }
  return layers;
}

std::size_t values_in(const Layers& layers) {
  std::size_t values = 0;
  for (const auto& [key, figure] : layers) {
    values += figure.heads.size() * figure.heads.front().size();
  }
  return values;
}

}  // namespace

std::vector<BiasFigure> biases_of(const std::vector<RunRecord>& runs, std::size_t most_values) {
  std::vector<BiasFigure> out;
  std::map<std::pair<std::string, std::string>, std::size_t> used;
  for (const RunRecord& run : runs) {
    Layers layers = read_last(run.folder);
    if (layers.empty()) continue;
    const auto [values, is_first] = used.try_emplace({run.experiment, run.attention}, 0);
    values->second += values_in(layers);
    if (!is_first && values->second > most_values) continue;
    for (auto& [key, figure] : layers) {
      figure.experiment = run.experiment;
      figure.attention = run.attention;
      figure.seed = run.seed;
      out.push_back(std::move(figure));
    }
  }
  return out;
}

}  // namespace attnlab
