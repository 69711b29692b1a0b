// attnlab study snr: what noisy or misaligned values cost an attention's output.
#include <fmt/format.h>
#include <cstdio>
#include <iostream>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/document/text.h"
#include "framework/studies/context_noise.h"
#include "runner/engine/engine.h"

namespace attnlab {
namespace {

using nlohmann::json;

Usage study_usage() {
  Usage usage;
  usage.synopsis = "attnlab study snr [key=value ...] [--json]";
  usage.about =
      "Signal-to-noise ratio of attention's output under value noise and under misalignment of\n"
      "keys and values, and the energy of the effective noise: Monte Carlo beside the closed\n"
      "forms and what Indirect Attention prints (docs/studies.md). Keys: dims, noises, shifts,\n"
      "sharpness (lists), mean, tokens, samples, seed, weights (independent or keys).\n"
      "Example: attnlab study snr dims=[16,1024] shifts=[0,1] samples=2000";
  usage.options.add_options()("json", "print JSON");
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  return usage;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string measured(const Estimate& estimate) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4g ± %.1g", estimate.value, estimate.error);
  return text;
}

/// Empty without rows.
std::string section(const char* title, const std::vector<NoiseRow>& rows, const char* strength) {
  if (rows.empty()) return "";
  Table table{"",
              {"d", "sharpness", "Σa²", strength, "SNR", "closed", "printed", "noise energy",
               "closed", "printed"}};
  for (const NoiseRow& row : rows) {
    table.rows.push_back({std::to_string(row.dim), number(row.sharpness),
                          number(row.concentration.value), number(row.strength), measured(row.snr),
                          number(row.closed_snr), number(row.printed_snr), measured(row.noise),
                          number(row.closed_noise), number(row.printed_noise)});
  }
  return fmt::format("## {}\n\n{}\n", title, table_text(table));
}

json json_of(const Estimate& estimate) {
  return {{"value", estimate.value}, {"standard_error", estimate.error}};
}

json json_of(const std::vector<NoiseRow>& rows, const char* strength) {
  json list = json::array();
  for (const NoiseRow& row : rows) {
    list.push_back({{"dim", row.dim},
                    {"sharpness", row.sharpness},
                    {strength, row.strength},
                    {"concentration", json_of(row.concentration)},
                    {"signal", json_of(row.signal)},
                    {"noise", json_of(row.noise)},
                    {"snr", json_of(row.snr)},
                    {"closed", {{"noise", row.closed_noise}, {"snr", row.closed_snr}}},
                    {"printed", {{"noise", row.printed_noise}, {"snr", row.printed_snr}}}});
  }
  return list;
}

json json_of(const ContextNoiseOptions& options, const ContextNoise& found) {
  return {{"study", "snr"},
          {"mean", options.mean},
          {"tokens", options.tokens},
          {"samples", options.samples},
          {"seed", options.seed},
          {"weights", options.weights},
          {"value_noise", json_of(found.value_noise, "sigma")},
          {"misalignment", json_of(found.misalignment, "shift")}};
}

void print(const ContextNoiseOptions& options, const ContextNoise& found) {
  std::cout << section("Noise in the values", found.value_noise, "σ")
            << section("Values of another sequence", found.misalignment, "δ") << options.samples
            << " samples of " << options.tokens << " tokens, weights "
            << (options.weights == "keys" ? "from the tokens' own products with a query"
                                          : "independent of the values")
            << ", values of mean " << number(options.mean)
            << ". Monte Carlo ± its standard error; closed forms take the measured Σa².\n";
}

}  // namespace

int study_command(const Words& words) {
  Usage usage = study_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  if (arguments.words[0] != "snr") {
    throw ConfigError(fmt::format("unknown study '{}'{}", arguments.words[0],
                                  suggestion(arguments.words[0], {"snr"})));
  }
  const ContextNoiseOptions options = context_noise_options(options_from(arguments.overrides));
  const ContextNoise found = measure_context_noise(options);
  if (arguments.has("json")) {
    std::cout << json_of(options, found).dump(2) << "\n";
  } else {
    print(options, found);
  }
  return kDone;
}

}  // namespace attnlab
