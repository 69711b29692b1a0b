#include "runner/engine/bench_report.h"

#include <fmt/format.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/nn/attention/attention_kernel.h"
#include "framework/nn/kernels/dispatch.h"
#include "framework/train/environment.h"

namespace attnlab {
namespace {

using nlohmann::json;

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string time_text(double seconds) {
  return seconds < 1e-3  ? format("%.1f us", 1e6 * seconds)
         : seconds < 1.0 ? format("%.2f ms", 1e3 * seconds)
                         : format("%.2f s", seconds);
}

std::string times_text(const Comparison& times) {
  return format("%10s %6.3f %13s", time_text(times.seconds).c_str(), times.ratio,
                format("%.3f-%.3f", times.low, times.high).c_str());
}

std::string row_text(const BenchCell& cell, int width) {
  const std::string name = format("  %-*s  ", width, cell.attention.c_str());
  if (cell.absence != Absence::none) {
    return fmt::format("{}- ({}: {})\n", name, name_of(cell.absence), cell.reason);
  }
  return fmt::format(
      "{}{}{}  {}{}", name, format("%-8s ", cell.kernel.c_str()),
      times_text(cell.times.at(Pass::forward)), times_text(cell.times.at(Pass::training)),
      format(" %11s %7.3f\n", bytes_text(cell.peak_bytes).c_str(), cell.memory_ratio));
}

json json_of(const Comparison& times) {
  return {{"seconds", times.seconds},
          {"standard_seconds", times.reference_seconds},
          {"ratio", times.ratio},
          {"interval", {times.low, times.high}},
          {"rounds", times.rounds}};
}

/// "forward" and "training": names without blanks, for programs.
const char* key_of(Pass pass) { return pass == Pass::forward ? "forward" : "training"; }

json json_of(const BenchCell& cell) {
  json out = {{"attention", cell.attention}};
  if (cell.absence != Absence::none) {
    out["absent"] = {{"why", name_of(cell.absence)}, {"reason", cell.reason}};
    return out;
  }
  out["kernel"] = cell.kernel;
  for (const auto& [pass, times] : cell.times) out[key_of(pass)] = json_of(times);
  out["peak_bytes"] = cell.peak_bytes;
  out["peak_ratio"] = cell.memory_ratio;
  return out;
}

json json_of(const BenchBlock& block) {
  const BenchShape& shape = block.shape;
  json out = {{"shape", shape_text(shape)},
              {"batch", shape.batch},
              {"heads", shape.heads},
              {"length", shape.length},
              {"dim", shape.dim},
              {"matmul_flops", block.matmul_rate},
              {"attentions", json::array()},
              {"standard_share", json::object()}};
  for (const auto& [pass, share] : block.standard_share)
    out["standard_share"][key_of(pass)] = share;
  for (const BenchCell& cell : block.cells) out["attentions"].push_back(json_of(cell));
  return out;
}

json json_of(const BenchBar& bar) {
  return {{"what", bar.what},         {"limit", bar.limit},
          {"worst", bar.worst.ratio}, {"interval", {bar.worst.low, bar.worst.high}},
          {"shape", bar.where},       {"verdict", name_of(bar.verdict)}};
}

}  // namespace

std::string shape_text(const BenchShape& shape) {
  return fmt::format("{}×{}×{}×{}", shape.batch, shape.heads, shape.length, shape.dim);
}

std::string bytes_text(std::int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  return bytes < 1 << 20   ? format("%.1f KiB", size / (1 << 10))
         : bytes < 1 << 30 ? format("%.1f MiB", size / (1 << 20))
                           : format("%.1f GiB", size / (1 << 30));
}

std::string machine_text() {
  const json machine = json::parse(machine_json());
  return fmt::format(
      "{}, {}\nattnlab {}, LibTorch {}, float32, {} threads, kernel {}, instructions {}\n",
      machine.at("cpu").get<std::string>(), machine.at("system").get<std::string>(),
      ATTNLAB_VERSION, TORCH_VERSION, at::get_num_threads(), name_of(attention_kernel()),
      kernels_run_with());
}

std::string block_text(const BenchBlock& block) {
  std::string text =
      fmt::format("\nn = {} ({}): matrix products at {}", block.shape.length,
                  shape_text(block.shape), format("%.1f GFLOP/s", block.matmul_rate / 1e9));
  for (const auto& [pass, share] : block.standard_share) {
    text += pass == Pass::forward ? "; standard reaches " : ", ";
    text += format("%.0f %% %s", 100 * share, name_of(pass));
  }
  std::size_t width = 9;
  for (const BenchCell& cell : block.cells) width = std::max(width, cell.attention.size());
  const int columns = static_cast<int>(width);
  text +=
      format("\n  %-*s  %-8s %10s %6s %13s  %10s %6s %13s %11s %7s\n", columns, "attention",
             "kernel", "forward", "ratio", "95 %", "and back", "ratio", "95 %", "memory", "ratio");
  for (const BenchCell& cell : block.cells) text += row_text(cell, columns);
  return text;
}

std::string bars_text(const std::vector<BenchBar>& bars) {
  std::string text;
  for (const BenchBar& bar : bars) {
    text += fmt::format("{}{}{}{}\n", format("  %-8s", name_of(bar.verdict)), bar.what,
                        format(": at most %g; worst %.3f (%.3f-%.3f) at ", bar.limit,
                               bar.worst.ratio, bar.worst.low, bar.worst.high),
                        bar.where);
  }
  return text.empty() ? "" : "\nlimits\n" + text;
}

std::string bench_json(const BenchPlan& plan, const std::vector<BenchBlock>& blocks,
                       const std::vector<BenchBar>& bars) {
  json out = {{"attnlab", ATTNLAB_VERSION},
              {"libtorch", TORCH_VERSION},
              {"machine", json::parse(machine_json())},
              {"threads", at::get_num_threads()},
              {"kernel", name_of(attention_kernel())},
              {"instructions", kernels_run_with()},
              {"dtype", "float32"},
              {"causal", plan.causal},
              {"seconds", plan.seconds},
              {"shapes", json::array()},
              {"bars", json::array()}};
  for (const BenchBlock& block : blocks) out["shapes"].push_back(json_of(block));
  for (const BenchBar& bar : bars) out["bars"].push_back(json_of(bar));
  return json_text(out);
}

}  // namespace attnlab
