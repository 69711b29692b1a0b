// attnlab bench attention: time and memory of mechanisms, as ratios to standard attention.
#include "runner/engine/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <iostream>
#include <sstream>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/tensor/device.h"
#include "runner/engine/bench_decode.h"
#include "runner/engine/bench_report.h"
#include "runner/engine/engine.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;

/// Batches of about 4096 tokens at the lengths of small images, ViTs and texts.
std::vector<BenchShape> default_shapes() {
  std::vector<BenchShape> shapes;
  for (const std::int64_t length : {64, 197, 512, 1024, 4096}) {
    BenchShape shape;
    shape.batch = std::max<std::int64_t>(1, 4096 / length);
    shape.length = length;
    shapes.push_back(shape);
  }
  return shapes;
}

/// Behind how many tokens one more is written.
std::vector<BenchShape> default_decode_shapes() {
  std::vector<BenchShape> shapes;
  for (const std::int64_t length : {1024, 4096, 16384, 65536, 262144})
    shapes.push_back({1, 4, length, 64});
  return shapes;
}

/// @param text  "4×4×1024×64"; an x may stand for the ×.
BenchShape shape_of(const std::string& text) {
  std::istringstream parts(boost::replace_all_copy(text, "×", "x"));
  std::vector<std::int64_t> sizes;
  for (std::string part; std::getline(parts, part, 'x');) {
    sizes.push_back(parsed_number<std::int64_t>(part).value_or(0));
  }
  if (sizes.size() != 4 || text.ends_with('x') ||
      *std::min_element(sizes.begin(), sizes.end()) < 1) {
    throw ConfigError(fmt::format(
        "--shapes: expected batch×heads×length×channels, as 4×4×1024×64, found '{}'", text));
  }
  return {sizes[0], sizes[1], sizes[2], sizes[3]};
}

std::vector<BenchShape> shapes_of(const Arguments& arguments) {
  if (!arguments.has("shapes")) {
    return arguments.has("decode") ? default_decode_shapes() : default_shapes();
  }
  std::vector<BenchShape> shapes;
  std::istringstream list(arguments.text("shapes", ""));
  for (std::string item; std::getline(list, item, ',');) shapes.push_back(shape_of(item));
  if (shapes.empty()) throw ConfigError("--shapes: names no shape; write 4×4×1024×64, for one");
  return shapes;
}

/// @param word  "quest", or "{use: quest, as: LABEL, eps: 1e-3}" as in a suite.
BenchSubject subject_of(const std::string& word, const Catalogue& catalogue) {
  Node options = parse_value(word, {fmt::format("argument '{}'", word), 0, 0});
  interpolate(options);
  std::string name, label;
  if (options.is_map()) {
    name = options.at("use").text();
    if (const Node* as = options.find("as")) label = as->text();
    options.erase("use");
    options.erase("as");
  } else {
    name = options.text();
    options = Node();
  }
  BenchSubject subject{part_of(Kind::attention, name, options, catalogue), ""};
  if (!label.empty()) subject.part.label = label;
  return subject;
}

/// Every attention there is, the baseline first: its row shows how far equal things differ.
std::vector<BenchSubject> all_subjects(const Catalogue& catalogue) {
  std::vector<BenchSubject> subjects = {subject_of("standard", catalogue)};
  for (const std::string& name : catalogue.names(Kind::attention)) {
    if (name == "standard") continue;
    try {
      subjects.push_back(subject_of(name, catalogue));
    } catch (const ConfigError& error) {  // an option that must be given
      BenchSubject subject;
      subject.part.name = subject.part.label = name;
      subject.problem = error.what();
      subjects.push_back(subject);
    }
  }
  return subjects;
}

BenchPlan plan_of(const Arguments& arguments, const Catalogue& catalogue) {
  BenchPlan plan;
  plan.shapes = shapes_of(arguments);
  plan.seconds = arguments.options["seconds"].as<double>();
  plan.causal = arguments.has("causal");
  if (!(plan.seconds >= 0)) throw ConfigError("--seconds: expected a number from 0 on");
  for (std::size_t i = 1; i < arguments.words.size(); ++i) {
    plan.subjects.push_back(subject_of(arguments.words[i], catalogue));
  }
  if (plan.subjects.empty()) plan.subjects = all_subjects(catalogue);
  return plan;
}

Usage bench_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab bench attention [ID ...] [--shapes B×H×n×D,...] [--seconds S] [--threads N]\n"
      "       [--causal] [--decode] [--json]";
  usage.about =
      "Measures time and peak memory of one layer of each attention against standard attention,\n"
      "in turn: a forward pass without gradients, then forward and backward, as ratios with 95\n"
      "% intervals. ID is a name or, as in a suite, '{use: NAME, as: LABEL, options...}';\n"
      "default: all. What each mechanism promises (see docs/bench.md) is checked at the end.";
  usage.options.add_options()("shapes", po::value<std::string>()->value_name("LIST"),
                              "batch×heads×length×channels, with commas between; default: lengths\n"
                              "64, 197, 512, 1024, 4096 in batches of about 4096 tokens, 4×64\n"
                              "channels")(
      "seconds", po::value<double>()->value_name("S")->default_value(0.5),
      "seconds to measure each attention, shape and pass; at least three rounds")(
      "threads", po::value<std::int64_t>()->value_name("N")->default_value(0), "0: all cores")(
      "causal", "queries see no later keys")(
      "decode",
      "instead measure a layer's memory of earlier tokens (KV cache or state), and the time of one "
      "more token;\ndefault: after 1024 to 262144 tokens")("json", "print JSON");
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
  return usage;
}

int decode_bench(Registry& registry, const BenchPlan& plan, bool json) {
  std::vector<DecodeBlock> blocks;
  for (const BenchShape& shape : plan.shapes) {
    if (stop_requested()) return kInterrupted;
    blocks.push_back(measure_decode(registry, plan, shape));
    if (!json) std::cout << decode_text(blocks.back()) << std::flush;
  }
  if (json) std::cout << decode_json(blocks);
  return kDone;
}

}  // namespace

int bench_command(const Words& words) {
  Usage usage = bench_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  if (arguments.words[0] != "attention") {
    throw ConfigError(fmt::format("unknown command 'bench {}'{}", arguments.words[0],
                                  suggestion(arguments.words[0], {"attention"})));
  }
  const auto threads = arguments.options["threads"].as<std::int64_t>();
  if (threads < 0 || threads > 4096) throw ConfigError("--threads: expected 0 to 4096");
  use_threads(threads);
  Registry registry(Catalogue::of_this_program());
  const BenchPlan plan = plan_of(arguments, registry.catalogue());
  const bool json = arguments.has("json");
  if (!json) std::cout << machine_text() << std::flush;
  if (arguments.has("decode")) return decode_bench(registry, plan, json);
  std::vector<BenchBlock> blocks;
  for (const BenchShape& shape : plan.shapes) {
    if (stop_requested()) break;
    blocks.push_back(measure_block(registry, plan, shape));
    if (!json) std::cout << block_text(blocks.back()) << std::flush;
  }
  const std::vector<BenchBar> bars = measure_bars(registry, plan, blocks);
  std::cout << (json ? bench_json(plan, blocks, bars) : bars_text(bars));
  if (stop_requested()) return kInterrupted;
  const auto failed = [](const BenchBlock& block) {
    return std::any_of(block.cells.begin(), block.cells.end(),
                       [](const BenchCell& cell) { return cell.absence == Absence::failed; });
  };
  return std::any_of(blocks.begin(), blocks.end(), failed) ? kRunFailed : kDone;
}

}  // namespace attnlab
