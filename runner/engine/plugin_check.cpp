// attnlab plugin check PATH CHECK [key=value ...]: one check of the conformance kit, its result as
// a line of JSON. Not for people: `attnlab plugin test` runs one for each check.
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>

#include "framework/conformance/conformance.h"
#include "runner/engine/engine.h"

namespace attnlab {
namespace {

void print(const conformance::CheckResult& result) {
  const nlohmann::json line = {{"check", result.check},
                               {"outcome", conformance::name_of(result.outcome)},
                               {"message", result.message},
                               {"seconds", result.seconds}};
  // A line of its own, whatever the plugin printed; bytes that are not text do not stop it.
  std::cout << "\n"
            << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n"
            << std::flush;
}

}  // namespace

int plugin_check_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab plugin check PATH CHECK [key=value ...]";
  usage.about = "Runs one check of `attnlab plugin test` and prints its result as JSON.";
  usage.fewest_words = usage.most_words = 2;
  usage.takes_overrides = true;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);  // nothing to save
  const Catalogue catalogue = Catalogue::of_file(arguments.words[0]);
  const std::string id = catalogue.candidates().front().manifest->id;
  const Part part = part_of(Kind::attention, id, options_from(arguments.overrides), catalogue);
  Registry registry(catalogue);
  conformance::Subject subject;
  subject.build = [&](const AttentionShape& shape) { return registry.attention(part, shape); };
  // The registry has compared them with the manifest's.
  subject.declared = subject.build({.heads = 2, .head_dim = 4})->traits();
  subject.may_refuse = !arguments.overrides.empty();
  if (arguments.words[1] == "load") {
    conformance::CheckResult loaded;
    loaded.check = "load";
    print(loaded);
  } else {
    print(conformance::run_check(arguments.words[1], subject));
  }
  return kDone;
}

}  // namespace attnlab
